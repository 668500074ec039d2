"""Puts the jars that set-up has built into the wheel, and the commit it is made from; an editable install reads the clone's own."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FoldHook(BuildHookInterface):  # type: ignore[type-arg]
    """Named in pyproject.toml."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._scratch = ExitStack()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them; ends the build in one line when one is missing or older than its sources."""
        if version == "editable":
            return
        # The clone's own modules: nothing of it is installed in a build environment.
        sys.path.insert(0, self.root)
        from ivsim import code_version  # noqa: PLC0415
        from ivsim.study.engines.pipe.platforms.kafka_libraries import jar as frames  # noqa: PLC0415
        from schemas.errors import Refusal  # noqa: PLC0415
        from twin import fold_jar  # noqa: PLC0415

        try:
            jars = {
                fold_jar.fold_jar(): f"twin/{fold_jar.NAME}",
                frames.frames_jar(): f"{frames.FOLDER}/{frames.NAME}",
            }
        except Refusal as refusal:
            self.app.abort(str(refusal))
        build_data["force_include"] |= {os.fspath(jar): place for jar, place in jars.items()}
        if (commit := code_version.commit()) is not None:
            noted = Path(self._scratch.enter_context(TemporaryDirectory(prefix="ivsim-wheel-"))) / "commit"
            noted.write_text(f"{commit}\n")
            build_data["force_include"][os.fspath(noted)] = "ivsim/data/commit"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel alone."""
        del version, build_data, artifact_path
        self._scratch.close()
