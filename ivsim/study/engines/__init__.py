"""The table of engines, each a way to measure the cells of a study; a new one is a folder and one line here.

A plug-in of `ivsim.engines` is a row, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas.plugins import Plugin, Table, checked, made

if TYPE_CHECKING:
    from ivsim.study.engines.base import Engine

# engine in study.toml -> module:class, loaded when a study asks for it
_OWN = {
    "whole_run": "ivsim.study.engines.whole_run.engine:WholeRun",
    "echo": "ivsim.study.engines.echo.engine:Echo",
    "codec": "ivsim.study.engines.codec.engine:Codec",
    "codec_cpp": "ivsim.study.engines.codec_cpp.engine:CodecCpp",
    "pipe": "ivsim.study.engines.pipe.engine:Pipe",
    "clients": "ivsim.study.engines.pipe.client_loops.engine:Clients",
}


def _row(plugin: Plugin, found: object) -> Engine:
    from ivsim.study.engines.base import Engine  # noqa: PLC0415 - it reads this table

    engine: Engine = checked(made(found), plugin.name, Engine)
    return engine


ENGINES: Final[Table[Engine]] = Table("ivsim.engines", _OWN, _row)
