"""Puts the twin's fold, which set-up has built, into the wheel; an editable install reads the clone's own."""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FoldHook(BuildHookInterface):  # type: ignore[type-arg]
    """Named in pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the jar; ends the build in one line when it is missing or older than its sources."""
        if version == "editable":
            return
        # The clone's own modules: nothing of it is installed in a build environment.
        sys.path.insert(0, self.root)
        from schemas.errors import Refusal  # noqa: PLC0415
        from twin import fold_jar  # noqa: PLC0415

        try:
            jar = fold_jar.fold_jar()
        except Refusal as refusal:
            self.app.abort(str(refusal))
        build_data["force_include"][os.fspath(jar)] = f"twin/{fold_jar.NAME}"
