"""The process that plays a run's schedule on its link and probes it, as its owner sees it."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ivsim.runs.children import READY_S, Children, ChildSpec
from ivsim.testbed.process import NotReady, ProcessDied
from simulator.link_player import PlayerConfig
from simulator.link_schedule import LinkSchedule, SideBySide
from simulator.link_task import Played, Task
from simulator.links.base import Conditions, Link, LinkError
from simulator.links.replay import LINK_STEPS
from simulator.links.row_file import RowFile
from simulator.links.step_log import Asked, Rows

NAME: Final = "replay"
LINK_TASK, LINK_PLAYED, LINK_ROWS = "link.task", "link.played", "link.rows"
# A cut is heard of while the next second is made ready: the one behind it is the first that has it.
_CUT_AFTER_S: Final = 2
# Until it has ended, and how many rows it writes each second of that at least.
_STOP_S: Final = 15.0
_ROWS_PER_S: Final = 100_000


class LinkPlayer:
    """Begins and ends the process; the link is left to it from `start` to `stop`.

    Args:
        children: who starts and ends it.
        work: directory for what it is told, and for what it leaves.
        probed: whose links it probes.
    """

    def __init__(
        self, children: Children, schedule: LinkSchedule | SideBySide, work: Path, *, probed: range
    ) -> None:
        self._schedule, self._work, self._probed = schedule, work, probed
        self._link: Link | None = None
        self._start_at_ns = 0
        self._played: Played | None = None
        self._problem: str | None = None
        paths = {
            "task_path": LINK_TASK,
            "steps_path": LINK_STEPS,
            "rows_path": LINK_ROWS,
            "played_path": LINK_PLAYED,
        }
        config = PlayerConfig(**{key: str(work / name) for key, name in paths.items()})
        self._child = children.start(ChildSpec(NAME, ("simulator.link_player",), config))

    @property
    def pid(self) -> int:
        return self._child.popen.pid

    def wait_ready(self) -> None:
        """Return once it can begin; ProcessDied or NotReady otherwise."""
        self._child.wait_for("ready", READY_S)

    def start(self, link: Link, at_ns: int) -> None:
        """Leave the link to the process: it sets the conditions of second 0, which begins at `at_ns` (wall clock), and so on."""
        self._link, self._start_at_ns = link, at_ns
        (self._work / LINK_TASK).write_bytes(pickle.dumps(Task(link, self._schedule, self._probed)))
        self._child.send("start", at_ns=at_ns)
        self._child.wait_for("playing", READY_S)

    def check(self) -> None:
        """LinkError when the replay or the probes have failed; who has died is its owner's to find."""
        if (failure := self._figures().get("failure")) is not None:
            raise LinkError(failure)

    def cut(self, length_s: float) -> None:
        """Add an outage, as soon as it can be (faults on purpose)."""
        second = self._second() + _CUT_AFTER_S
        self._schedule.cut(second, length_s)
        self._child.send("cut", second=second, length_s=length_s)

    def in_force(self) -> tuple[int, Conditions]:
        """Return the second that goes on, and what is asked of each link in it; from any thread."""
        second = max(0, self._second())
        return second, self._schedule.at(second)

    def _second(self) -> int:
        return (time.time_ns() - self._start_at_ns) // 1_000_000_000

    def silence(self) -> None:
        """End the probes, then the replay; return once nothing of either crosses the link. `stop` says what went wrong."""
        if self._link is not None and self._played is None and self._problem is None:
            with contextlib.suppress(ProcessDied, NotReady):
                self._child.send("stop")
                self._child.wait_for("silent", _STOP_S)

    def stop(self) -> str | None:
        """End the probes, then the replay, and take the link back; return what went wrong with them. Idempotent."""
        if self._link is not None and self._played is None and self._problem is None:
            self._problem = self._ended(self._link)
        return self._problem

    def _ended(self, link: Link) -> str | None:
        code = self._child.stop(_STOP_S + self._rows() / _ROWS_PER_S)
        try:
            self._played = pickle.loads((self._work / LINK_PLAYED).read_bytes())  # noqa: S301 - our own process left it
        except (OSError, EOFError, pickle.UnpicklingError):  # it was killed, maybe while it wrote
            link.resume(None)
            if (broke := self._figures().get("failure")) is not None:
                return str(broke)
            try:
                self._child.check()
            except ProcessDied as death:
                return death.line
            return ProcessDied(NAME, code, None).line
        assert self._played is not None
        link.resume(self._played.told)
        failure: str | None = self._figures().get("failure")
        if failure is None and code != 0:  # it was killed while it wrote the rows
            failure = ProcessDied(NAME, code, None).line
        return failure

    def _rows(self) -> int:
        """Return how many rows there may be at most."""
        return 2 * max(0, self._second()) * len(self._schedule.at(0))

    def properties(self) -> dict[str, Any] | None:
        """Return how punctual the replay has been (`LinkReplay.properties`); None where it has left nothing, or not begun."""
        if self._problem is not None and self._played is None:
            return None
        return self._figures().get("replay")

    def _figures(self) -> Mapping[str, Any]:
        latest = self._child.latest
        return latest.get("done") or latest.get("progress") or {}

    def rows(self) -> Rows:
        """Return what was asked of the link, counted and probed, a row a second, vehicle and direction; once it has stopped."""
        return RowFile(self._work / LINK_ROWS)

    def distinct(self) -> list[Asked]:
        """Return each pair of conditions that was asked for once, with the first place where it was."""
        return [] if self._played is None else self._played.distinct
