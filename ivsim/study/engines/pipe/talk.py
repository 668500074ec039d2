"""The lines of JSON that a producer or consumer speaks with the measuring process (`ivsim.testbed.child`)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from schemas.control import commands


class Commands:
    """What the measuring process has said so far; its last word is the end of the file, which means stop.

    Attributes:
        stopped: set once it wants the process to end.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._changed = threading.Condition()
        self._said: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def _read(self) -> None:
        for command in commands():
            with self._changed:
                self._said[command["command"]] = command
                self._changed.notify_all()
            if command["command"] == "stop":
                break
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, name: str) -> dict[str, Any] | None:
        """Return a command, once it has come; None when the process is to stop before."""
        with self._changed:
            self._changed.wait_for(lambda: name in self._said or self.stopped.is_set())
            return self._said.get(name)

    def said(self, name: str) -> dict[str, Any] | None:
        """Return a command that has come, None before."""
        return self._said.get(name)


def configuration(arguments: list[str]) -> dict[str, Any]:
    """Return the process's configuration, a JSON file that its one argument names."""
    (path,) = arguments
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found
