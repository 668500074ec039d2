"""The table of engines, each a way to measure the cells of a study; a new one is a folder and one line here."""

from __future__ import annotations

# engine in study.toml -> module:class; ivsim.study.engines.base.engine_named loads it when a study asks for it
ENGINES = {
    "whole_run": "ivsim.study.engines.whole_run.engine:WholeRun",
    "echo": "ivsim.study.engines.echo.engine:Echo",
    "codec": "ivsim.study.engines.codec.engine:Codec",
    "codec_cpp": "ivsim.study.engines.codec_cpp.engine:CodecCpp",
    "pipe": "ivsim.study.engines.pipe.engine:Pipe",
}
