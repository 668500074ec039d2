"""A link during one measurement of a study: what plays its schedule, and what captures its vehicles' end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from ivsim.runs.children import READY_S, Children, ChildSpec
from ivsim.runs.link_player import LinkPlayer
from ivsim.runs.processes import CAPTURE
from ivsim.testbed.registry import RunRecord
from simulator.capture.process import CaptureConfig
from simulator.link_schedule import LinkSchedule, SideBySide
from simulator.links import Link, LinkError
from simulator.links.step_log import Rows

WIRE_LOG: Final = "wire.events"
_CAPTURED_S: Final = 120.0  # until the capture has written its tables


class Crossing:
    """The link's player and the capture, a process each; a context manager that ends both and takes the link back.

    Attributes:
        player: of the link.
        capture_drops: frames that the kernel dropped before they were read; None when nobody knows, and before the end.
        properties: how punctual the replay was (`LinkReplay.properties`); empty before the end.

    Args:
        link: open; the player has it from `begin` to `end`.
        schedule: what is asked of it.
        probed: whose links are probed.
        capture: what the capture is told; its files go to `work`.
        record: of the run, which notes the processes.
        work: existing directory.
    """

    def __init__(
        self,
        link: Link,
        schedule: LinkSchedule | SideBySide,
        *,
        probed: range,
        capture: CaptureConfig,
        record: RunRecord,
        work: Path,
    ) -> None:
        self._link, self._work = link, work
        self._stack = ExitStack()
        self._children = Children(record, work, self._stack)
        with self._stack:
            self.player = LinkPlayer(self._children, schedule, work, probed=probed)
            self._stack.callback(self.player.stop)
            spec = ChildSpec(CAPTURE, ("simulator.capture.process",), capture, link.vehicles_namespace)
            self._capture = self._children.start(spec)
            self.player.wait_ready()
            self._capture.wait_for("ready", READY_S)
            self._stack = self._stack.pop_all()
        self.capture_drops: int | None = None
        self.properties: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self, at_ns: int) -> None:
        """Set the conditions of second 0, which begins at `at_ns` (wall clock); the others come in their time."""
        self.player.start(self._link, at_ns)
        self._capture.send("start", at_ns=at_ns)

    def check(self) -> None:
        """Raise ProcessDied or LinkError when a part has failed."""
        self._children.check()
        self.player.check()

    def end(self) -> None:
        """End the replay, then the capture, and take the link back; LinkError, ProcessDied or NotReady where one failed."""
        if (problem := self.player.stop()) is not None:
            raise LinkError(problem)
        self.properties = self.player.properties() or {}
        self._capture.send("stop")
        self.capture_drops = self._capture.wait_for("done", _CAPTURED_S).get("kernel_drops")

    def rows(self) -> Rows:
        """Return what was asked of the link, counted and probed; once it has ended."""
        return self.player.rows()

    @property
    def wire_events(self) -> Path:
        """The capture's log of each second."""
        return self._work / WIRE_LOG
