"""Runs what is open of a study, in its order, and keeps each cell as done or failed; it judges no figure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from ivsim.runs.interrupt import interruptible
from ivsim.study import blocks
from ivsim.study.cells import FAILED, OPEN, Cell, Session
from ivsim.study.engines.base import Engine
from ivsim.study.pilot import width_of
from ivsim.study.plan import sessions
from ivsim.study.report import results
from ivsim.study.store import Store, check_space, full_disk
from schemas.errors import Refusal

SAY_EVERY_S = 15.0


class Tell(Protocol):
    """Says how far a study is: a text for people, and the same as fields for programs."""

    def __call__(self, text: str, /, **fields: float) -> None: ...


def to_terminal(text: str, /, **_: float) -> None:
    """Print the text on standard error."""
    Console(stderr=True).print(text, highlight=False)


def to_nobody(_: str, /, **__: float) -> None:
    """Say nothing."""


@dataclass
class Progress:
    """How much is left, in seconds as planned, corrected by what was needed so far; `after_s` comes after all this."""

    engine: Engine
    sessions: Sequence[Session]
    tell: Tell
    after_s: float = 0.0
    began_s: float = 0.0
    said_s: float = 0.0

    def start(self) -> None:
        self.began_s = time.monotonic()
        cells = sum(len(session.tasks) for session in self.sessions)
        total = minutes(self._seconds(self.sessions) + self.after_s)
        planned_s = round(self._seconds(self.sessions) + self.after_s, 1)
        self.tell(
            f"{cells} cells in {len(self.sessions)} sessions, about {total}",
            cells=cells,
            sessions=len(self.sessions),
            all_left_s=planned_s,
        )

    def _seconds(self, some: Sequence[Session]) -> float:
        return sum(self.engine.seconds(session) for session in some)

    def say(self, index: int, left_s: float, *, force: bool = False) -> None:
        """Say where the study is, now and then."""
        now = time.monotonic()
        if not force and now - self.said_s < SAY_EVERY_S:
            return
        self.said_s = now
        rest = left_s + self._seconds(self.sessions[index + 1 :]) + self.after_s
        spent, done = now - self.began_s, self._seconds(self.sessions[:index])
        pace = max(1.0, spent / done) if done else 1.0
        tasks = self.sessions[index].tasks
        what = tasks[0].name if len(tasks) == 1 else f"{len(tasks)} cells side by side"
        self.tell(
            f"session {index + 1} of {len(self.sessions)}: {what}; {minutes(rest * pace)} left",
            session=index + 1,
            sessions=len(self.sessions),
            all_left_s=round(rest * pace, 1),
        )


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def check_there(engine: Engine, cells: Sequence[Cell]) -> None:
    """Refuse cells that this machine cannot measure, and say how to get what is missing."""
    if (lack := engine.missing_for(cells)) is not None:
        raise Refusal(f"engine {engine.name}: {lack}")


def seconds_left(store: Store, cells: list[Cell]) -> float:
    """Return how long what is open of a study should take."""
    return sum(store.study.measured_by.seconds(session) for session in _todo(store, cells, again=False))


def run_study(
    store: Store,
    cells: list[Cell],
    *,
    tell: Tell = to_nobody,
    again: bool = False,
    stopped: Callable[[], None] = lambda: None,
    after_s: float = 0.0,
) -> None:
    """Run every task that is open, and with `again` those that failed; `after_s` is what other studies take then.

    Refusal when the disk is full: what is finished is kept, and a later call goes on. Interrupted likewise, which
    `stopped` raises between two measurements where signals do not reach the calling thread.
    """
    engine = store.study.measured_by
    todo = _todo(store, cells, again=again)
    if not todo or _ends_before(todo[0].repetition, store):
        _keep_looked(store)
        return
    check_there(engine, [cell for session in todo for cell in session.cells])
    progress = Progress(engine, todo, tell, after_s)
    progress.start()
    work = store.path / "work"
    with ExitStack() as stack:
        for owned in (_timed(store), interruptible(), full_disk(store.path), _scratch(work)):
            stack.enter_context(owned)
        opened = stack.enter_context(engine.open(work, store, todo))
        for index, session in enumerate(todo):
            stopped()
            if _ends_before(session.repetition, store):
                break
            check_space(store.path)
            progress.say(index, engine.seconds(session), force=True)
            for outcome in opened.measure(session, store, partial(_tick, progress, index, stopped)):
                if outcome.failure is None:
                    store.finish(outcome.task, outcome.figures)
                else:
                    store.fail(outcome.task, outcome.failure, invalid=outcome.invalid)
    _keep_looked(store)


def _ends_before(block: int, store: Store) -> bool:
    """Return whether the blocks before this one are enough; where they are not, it begins."""
    until = store.until
    if until is None or block <= until["blocks"]:
        return False
    if until["blocks"] >= blocks.LEAST and (found := _looked(until, store))["reached"]:
        store.keep_until(found)
        return True
    store.keep_until(blocks.new_rule(until["width"]) | {"blocks": block})
    return False


def _looked(until: dict[str, Any], store: Store) -> dict[str, Any]:
    """Return how wide the widest interval of the headline is, and whether that is narrow enough."""
    rule = width_of(until["width"], blocks.OPTION)
    found = blocks.widest(store.study, results(store), rule)
    reached = found.width is not None and found.width <= rule.value
    return until | {"reached": reached, "widest": found._asdict()}


def _keep_looked(store: Store) -> None:
    """Keep what the blocks have reached where none is to come."""
    if store.until is not None:
        store.keep_until(_looked(store.until, store))


def _tick(progress: Progress, index: int, stopped: Callable[[], None], left_s: float) -> None:
    stopped()
    progress.say(index, left_s)


def _todo(store: Store, cells: list[Cell], *, again: bool) -> list[Session]:
    if store.until is not None and store.until["reached"] is not None and not again:
        return []
    repetitions = 1 if store.quick else blocks.MOST if store.until else store.study.repetitions
    wanted = (OPEN, FAILED) if again else (OPEN,)
    found = []
    for session in sessions(store.study, cells, repetitions):
        left = tuple(task for task in session.tasks if store.kept(task).state in wanted)
        if left:
            found.append(Session(left))
    return found


@contextmanager
def _timed(store: Store) -> Iterator[None]:
    began_s = time.monotonic()
    try:
        yield
    finally:
        store.spend(time.monotonic() - began_s)


@contextmanager
def _scratch(work: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(work, ignore_errors=True)


def default_output(name: str, *, quick: bool) -> Path:
    """Return where a study's results go unless told otherwise."""
    return Path("results") / "studies" / (name + ("-quick" if quick else ""))
