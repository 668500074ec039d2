"""The figures of a run's page, drawn beside other work: a run waits for its ledger meanwhile, and `ivsim report` loads.

Loading what draws takes 0.6 s, drawing a default run's figures 0.9 s. `python -m ivsim.report.figures DIRECTORY` prints the
figures as JSON.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Self

from schemas.errors import Refusal
from schemas.without_pandas import without_pandas

# Each with its caption, as SVG text.
Figures = Sequence[tuple[str, str]]
# In the order of the page, by where they stand in it.
PARTS: Final = ("messages", "link", "batches")
_LIMIT_S: Final = 300.0


def drawn(directory: Path, part: str) -> Figures:
    """Return the figures of one of PARTS, from the tables of a run's directory."""
    from ivsim.report.run_charts import page_charts  # noqa: PLC0415 - takes its time: not before it is needed

    return [(caption, drawing.svg()) for drawing, caption in page_charts(directory, part).values()]


def all_drawn(directory: Path) -> dict[str, Figures]:
    """Return the figures of every part."""
    return {part: drawn(directory, part) for part in PARTS}


class FiguresAside:
    """Draws in a thread what is asked for, as soon as its tables are there; a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._parts: dict[str, Future[Figures]] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="charts")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def draw(self, part: str, await_tables: Callable[[], object] = lambda: None) -> None:
        """Draw a part, again if it was drawn before, behind the parts that were begun; `await_tables` is called first."""

        def task() -> Figures:
            await_tables()
            return drawn(self._directory, part)

        self._parts[part] = self._pool.submit(task)

    def __call__(self) -> Mapping[str, Figures]:
        """Return all figures: what has not been begun is drawn now."""
        for part in PARTS:
            if part not in self._parts:
                self.draw(part)
        return {part: future.result() for part, future in self._parts.items()}


@contextmanager
def figures_apart(directory: Path) -> Iterator[Callable[[], Mapping[str, Figures]]]:
    """Draw in a process of its own, which is gone behind the block; what is yielded returns the figures.

    What goes wrong there goes wrong again in the caller's process, which says it; Refusal where it takes too long.
    """
    command = [sys.executable, "-m", "ivsim.report.figures", str(directory.absolute())]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:

        def figures() -> Mapping[str, Figures]:
            try:
                printed, _ = process.communicate(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise Refusal(f"{directory}: its figures were not drawn within {_LIMIT_S:g} s") from None
            found: Mapping[str, Figures] = (
                json.loads(printed) if process.returncode == 0 else all_drawn(directory)
            )
            return found

        try:
            yield figures
        finally:
            process.kill()


def _drawn_by_two(directory: Path) -> dict[str, Figures]:
    """Return the figures of every part: those of the messages, half the work, are drawn here, the others by a fork of this process.

    What draws is loaded before the fork, once. EOFError where the fork could not draw.
    """
    import ivsim.report.run_charts  # noqa: F401, PLC0415 - as above

    fork = get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    here, others = PARTS[:1], PARTS[1:]

    def draw_others(ours: Connection, theirs: Connection) -> None:
        ours.close()  # so that it cannot wait for a reader that is gone
        theirs.send({part: drawn(directory, part) for part in others})

    process = fork.Process(target=draw_others, args=(ours, theirs), daemon=True)
    process.start()
    theirs.close()
    found = {part: drawn(directory, part) for part in here}
    found |= ours.recv()
    process.join()
    return found


if __name__ == "__main__":
    gc.disable()  # a tenth of its time, for memory that is handed back soon
    with without_pandas():
        json.dump(_drawn_by_two(Path(sys.argv[1])), sys.stdout)
