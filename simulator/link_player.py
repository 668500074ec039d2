"""`python -m simulator.link_player CONFIG.json`: plays a schedule on a link and probes it, beside whoever has opened the link.

Both have to be on time, and would not be in a process that does other things, too: a thread that runs before others waits all
the same for whoever holds Python's lock, and that one for a processor.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from schemas.config import Strict, read_config
from schemas.control import OWNER_DIED, emit, failure_line
from schemas.errors import Refusal
from schemas.loop_commands import Commands, stop_on_signal
from schemas.outlet import log_to_stderr
from schemas.without_pandas import without_pandas
from simulator.background import in_background
from simulator.link_task import Played, Task
from simulator.links.base import Link, LinkError
from simulator.links.proof.prober import Prober
from simulator.links.replay import LinkReplay
from simulator.links.row_file import write_rows
from simulator.links.step_log import StepLog
from simulator.priority import go_back, go_first

_PROGRESS_S = 0.5


class PlayerConfig(Strict):
    """What the process is told.

    Attributes:
        task_path: a pickled `Task`.
        steps_path: file for the steps' columns while they are played, whose directory exists.
        rows_path: where to leave the rows of link.parquet, but for the capture's columns (`RowFile`).
        played_path: where to leave a pickled `Played`, before them.
    """

    task_path: str
    steps_path: str
    rows_path: str
    played_path: str


class Player:
    """A link's replay and its probes, from the start to the end.

    Attributes:
        orphaned: the owner has died, and the link's router may have gone with it.
    """

    def __init__(self, config: PlayerConfig) -> None:
        self._config = config
        self._stack = ExitStack()
        self._task: Task | None = None
        self.replay: LinkReplay | None = None
        self.prober: Prober | None = None
        self.orphaned = False
        self._full: str | None = None  # why the rows are not in their file

    def start(self, at_ns: int) -> None:
        """Take the link, set the conditions of second 0, which begins at `at_ns`, and the others in their time."""
        self._task = pickle.loads(Path(self._config.task_path).read_bytes())  # noqa: S301 - the owner's own
        assert self._task is not None
        link, schedule, probed = self._task
        self._stack.enter_context(link.attached())
        replay = LinkReplay(link, schedule.at, at_ns, Path(self._config.steps_path))
        self.replay = self._stack.enter_context(replay)
        if probed:
            self.prober = self._stack.enter_context(Prober(link, len(probed), at_ns, probed.start))

    def cut(self, second: int, length_s: float) -> None:
        """Add an outage to what is played."""
        if self._task is not None:
            self._task.schedule.cut(second, length_s)

    def figures(self) -> dict[str, Any]:
        """Return how punctual the replay has been, and what has ended it or the probes."""
        failed = [
            f"{thread.name}: {thread.failure}"
            for thread in (self.replay, self.prober)
            if thread is not None and thread.failure is not None
        ]
        if self._full is not None:
            failed.append(self._full)
        return {
            "replay": None if self.replay is None else self.replay.properties(),
            "failure": next(iter(failed), None),
        }

    def stop(self) -> None:
        """Stop the probes, then the replay, and leave what was played; `silent` says that nothing more crosses the link."""
        if self.prober is not None:
            self.prober.stop()
        if self.replay is not None:
            self.replay.stop(counted=not self.orphaned)
        emit("silent")
        if (
            self._task is not None
            and self.replay is not None
            and (self.prober is not None or not self._task.probed)
        ):
            self._leave(self.replay.rows(), self._task.link)
        self._stack.close()

    def _leave(self, steps: StepLog, link: Link) -> None:
        """Leave what was played to the owner, and to whoever finishes a run whose owner was killed."""
        go_back()  # whoever is still at work goes before
        rows = Path(self._config.rows_path)
        written = rows.with_suffix(".part")
        try:
            played = Played(steps.distinct(), link.told())
            Path(self._config.played_path).write_bytes(pickle.dumps(played))
            write_rows(written, steps if self.prober is None else self.prober.add_to(steps))
            if written.is_file():
                written.replace(rows)  # whole, or not there
        except OSError as error:
            self._full = f"the rows of the link: {error.strerror or error}"


async def run(config: PlayerConfig) -> int:
    """Obey the owner until told to stop, or alone."""
    go_first()
    stop = asyncio.Event()
    failures: list[str] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, LinkError | Refusal):
            failures.append(str(error))
        else:
            loop.default_exception_handler(context)
            failures.append(failure_line(context))
        stop.set()

    asyncio.get_running_loop().set_exception_handler(failed)
    stop_on_signal(stop)
    player = Player(config)

    def orphaned() -> None:
        player.orphaned = True
        stop.set()

    asyncio.get_running_loop().add_signal_handler(OWNER_DIED, orphaned)
    tasks = [
        in_background("a command", _obey(player, stop)),
        in_background("the progress report", _report(player)),
    ]
    emit("ready")
    try:
        await stop.wait()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(player.stop)
    if failures:
        emit("error", message=failures[0])
        return 1
    emit("done", **player.figures())
    return 0


async def _obey(player: Player, stop: asyncio.Event) -> None:
    commands = await Commands.open("start", "cut", "stop")
    while (command := await commands.next()) is not None and command["command"] != "stop":
        if command["command"] == "start":
            await asyncio.to_thread(player.start, int(command["at_ns"]))
            emit("playing")
        else:
            player.cut(int(command["second"]), float(command["length_s"]))
    player.orphaned |= command is None
    stop.set()


async def _report(player: Player) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", **player.figures())


def main(argv: list[str]) -> int:
    """Return 0 after a stop, 2 for a refusal."""
    log_to_stderr("%(asctime)s %(name)s %(levelname)s %(message)s")
    if len(argv) != 1:
        emit("error", message="usage: python -m simulator.link_player CONFIG.json")
        return 2
    try:
        with without_pandas():
            return asyncio.run(run(read_config(argv[0], PlayerConfig)))
    except (LinkError, Refusal) as error:
        emit("error", message=str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
