"""Runs and testbeds that are open on this machine now, from their notes; nothing is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ivsim.testbed.paths import state_dir
from ivsim.testbed.registry import ProcessMark


class LiveRun(NamedTuple):
    """A run whose owner lives.

    Attributes:
        name: of the run, or of the testbed.
        directory: its scratch, within that of its result.
        namespaces: that it has made, as far as they are noted.
    """

    name: str
    directory: Path
    namespaces: tuple[str, ...]

    @property
    def vehicles_namespace(self) -> str | None:
        """The namespace in which its vehicles live; None before its link is open."""
        return next((name for name in self.namespaces if name.endswith("-v")), None)

    def vehicles(self) -> int | None:
        """Return how many vehicles it has; None of a testbed, and before the first message is due."""
        options = self._options()
        return None if options is None else int(options["vehicles"])

    def topology(self) -> str | None:
        """Return the word of its topology; None where `vehicles` has none."""
        options = self._options()
        return None if options is None else options.get("topology")

    def _options(self) -> dict[str, Any] | None:
        try:
            manifest = json.loads((self.directory.parent / "manifest.json").read_text())
        except (OSError, ValueError):
            return None
        found: dict[str, Any] = manifest["options"]
        return found


def live_runs() -> list[LiveRun]:
    """Return every run and testbed that is open, by its name."""
    found = []
    for path in sorted(state_dir().glob("*.jsonl")):
        try:
            notes = [json.loads(line) for line in path.read_text().splitlines()]
        except (FileNotFoundError, ValueError):
            continue  # it has ended meanwhile, or is being written
        mark = ProcessMark.parse(notes[0]["owner"], notes[0]["boot"]) if notes else None
        if mark is None or not mark.alive():
            continue
        directory = next((note["directory"] for note in notes if note["kind"] == "run"), "")
        names = tuple(note["name"] for note in notes if note["kind"] == "namespace")
        found.append(LiveRun(path.stem, Path(directory), names))
    return found
