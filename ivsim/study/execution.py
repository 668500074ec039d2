"""Runs what is open of a study, in its order, and keeps each cell as done or failed; it judges no figure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq
from rich.console import Console

from ivsim.interrupt import interruptible
from ivsim.run_directory import write_json
from ivsim.runner import BROKEN, execute
from ivsim.study.ages import age_figures
from ivsim.study.bench import Bench
from ivsim.study.echo_session import EchoSession
from ivsim.study.model import Cell
from ivsim.study.ping import ping
from ivsim.study.plan import Session, Task, sessions
from ivsim.study.store import FAILED, OPEN, Store, check_space, full_disk
from schemas.errors import Refusal
from simulator.links import choose

SAY_EVERY_S = 15.0
PINGS = 200


@dataclass
class Progress:
    """How much is left, in seconds as planned, corrected by what was needed so far."""

    sessions: Sequence[Session]
    console: Console
    began_s: float = 0.0
    planned_s: float = 0.0
    said_s: float = 0.0

    def start(self) -> None:
        self.began_s = time.monotonic()
        total = sum(session.seconds for session in self.sessions)
        cells = sum(len(session.tasks) for session in self.sessions)
        self.console.print(
            f"{cells} cells in {len(self.sessions)} sessions, about {minutes(total)}", highlight=False
        )

    def say(self, index: int, left_s: float, *, force: bool = False) -> None:
        """Say where the study is, now and then."""
        now = time.monotonic()
        if not force and now - self.said_s < SAY_EVERY_S:
            return
        self.said_s = now
        rest = left_s + sum(session.seconds for session in self.sessions[index + 1 :])
        spent, done = now - self.began_s, sum(s.seconds for s in self.sessions[:index])
        pace = max(1.0, spent / done) if done else 1.0
        session = self.sessions[index]
        what = (
            session.tasks[0].name if len(session.tasks) == 1 else f"{len(session.tasks)} cells side by side"
        )
        self.console.print(
            f"session {index + 1} of {len(self.sessions)}: {what}; {minutes(rest * pace)} left",
            highlight=False,
        )


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def run_study(store: Store, cells: list[Cell], *, quiet: bool, again: bool = False) -> None:
    """Run every task that is open, and with `again` those that failed.

    Refusal when the disk is full: what is finished is kept, and a later call goes on. Interrupted likewise.
    """
    repetitions = 1 if store.quick else store.study.repetitions
    todo = []
    for session in sessions(store.study, cells, repetitions):
        wanted = (OPEN, FAILED) if again else (OPEN,)
        left = tuple(task for task in session.tasks if store.kept(task).state in wanted)
        if left:
            todo.append(Session(left))
    if not todo:
        return
    progress = Progress(todo, Console(stderr=True, quiet=quiet))
    progress.start()
    with _timed(store), interruptible(), full_disk(store.path), _Benches(store, todo) as benches:
        for index, session in enumerate(todo):
            check_space(store.path)
            progress.say(index, session.seconds, force=True)
            if session.echo:
                _run_echo(store, session, benches, lambda left, i=index: progress.say(i, left))
            else:
                _run_gateway(store, session.tasks[0])


@contextmanager
def _timed(store: Store) -> Iterator[None]:
    began_s = time.monotonic()
    try:
        yield
    finally:
        store.spend(time.monotonic() - began_s)


class _Benches:
    """Opens the testbed of a link when its first session comes; closes it for another's, and at the end."""

    def __init__(self, store: Store, todo: Sequence[Session]) -> None:
        self._path = store.path
        self._work = store.path / "work"
        self._todo = [session for session in todo if session.echo]
        self._open: tuple[str, Bench, ExitStack] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, link: str) -> Bench:
        if self._open is not None and self._open[0] == link:
            return self._open[1]
        self.close()
        alike = [session for session in self._todo if session.tasks[0].cell.options.link == link]
        most = max(session.vehicles for session in alike)
        protocols = {task.cell.options.protocol for session in alike for task in session.tasks}
        stack = ExitStack()
        bench = stack.enter_context(Bench(self._work, choose(link), most, protocols))
        self._open = (link, bench, stack)
        # Before any road is asked for: the round trip of the bare link, as the paper's 200 pings.
        write_json(self._path / f"ping-{link}.json", {"rtt_ms": ping(bench.link, PINGS)})
        return bench

    def close(self) -> None:
        if self._open is not None:
            self._open[2].close()
            self._open = None
        shutil.rmtree(self._work, ignore_errors=True)


def _run_echo(store: Store, session: Session, benches: _Benches, tick: object) -> None:
    """Run one session; what breaks all of it fails its cells, and the next session gets a new testbed."""
    try:
        bench = benches.get(session.tasks[0].cell.options.link)
        running = EchoSession(bench, session, tick)  # type: ignore[arg-type]
        running.run()
    except BROKEN as error:
        benches.close()
        for task in session.tasks:
            store.fail(task, str(error).partition("\n")[0])
        return
    number = len(list((store.path / "sessions").glob("*"))) + 1
    directory = store.path / "sessions" / f"{number:03d}"
    directory.mkdir(parents=True)
    pq.write_table(running.link_log(), directory / "link.parquet", compression="zstd")
    write_json(directory / "session.json", running.about())
    for place in running.places:
        try:
            figures = running.write(place, store.begin(place.task))
        except BROKEN as error:
            store.fail(place.task, str(error).partition("\n")[0])
        else:
            store.finish(place.task, figures | {"session": number})


def _run_gateway(store: Store, task: Task) -> None:
    """Run a whole run of its own; it keeps its directory, report and all."""
    directory = store.begin(task)
    try:
        outcome = execute(task.cell.options, directory, quiet=True)
    except Refusal as refusal:
        store.fail(task, str(refusal))
        return
    if outcome.exit_code:
        store.fail(task, (outcome.error or f"exit code {outcome.exit_code}").partition("\n")[0])
        return
    store.finish(task, outcome.metrics | age_figures(directory, task.cell.options.outage))


def default_output(name: str, *, quick: bool) -> Path:
    """Return where a study's results go unless told otherwise."""
    return Path("results") / "studies" / (name + ("-quick" if quick else ""))
