"""What a run says while it goes: a live view on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from types import MappingProxyType, TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ivsim.report.style import number
from ivsim.runs.phase_times import PhaseTimes
from ivsim.told import at_s

PLAIN_EVERY_S = 10.0
STILL_EVERY_S = 5.0
JSON_EVERY_S = 1.0
WIDTH = 80
ON_A_LINE = 5
NO_PARTS: Mapping[str, float] = MappingProxyType({})


class Display:
    """Shows the phase, the messages so far and the live figures; all of it goes to standard error, or to `console`.

    With `times` it says what each phase usually takes, and how long it is until all is over.
    """

    def __init__(
        self, *, quiet: bool, console: Console | None = None, times: PhaseTimes | None = None
    ) -> None:
        self._times = times
        self._console = console or Console(stderr=True, quiet=quiet)
        self._live: Live | None = None
        self._phase = ""
        self._phase_began_s = time.monotonic()
        self._row: dict[str, Any] = {}
        self._share = 0.0
        self._left_s: float | None = None
        self._cores: Mapping[str, float] = NO_PARTS
        self._plain_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, at)
            self._live = None

    def ended(self) -> None:
        """Note that the run has come to its end in order: the times of its phases are a measure for others."""
        if self._times is not None:
            self._times.keep()

    def phase(self, text: str) -> None:
        """Say what is being done now; the time left of the phase before says nothing of this one."""
        if (
            text.partition(":")[0] != self._phase.partition(":")[0]
        ):  # what is behind the colon is a detail of it
            self._phase_began_s, self._left_s = time.monotonic(), None
            if self._times is not None:
                self._times.begin(text)
        self._phase = text
        if self._live is None:
            self._console.print(text + self._usual(text), highlight=False)

    def usual_s(self, *phases: str) -> float | None:
        """Return how long these phases usually take together; None where that of one is not known."""
        known = [] if self._times is None else [self._times.usual_s(phase) for phase in phases]
        return sum(one for one in known if one is not None) if known and None not in known else None

    def _usual(self, text: str) -> str:
        """Return what is known of a phase's time and of all that follows, to stand behind its words; "" for nothing."""
        if self._times is None:
            return ""
        usual_s, left_s = self._times.usual_s(text), self._times.left_s()
        said = [] if usual_s is None else [f"usually {usual_s:.0f} s"]
        said += [] if left_s is None else [f"about {left_s:.0f} s left"]
        return f" ({', '.join(said)})" if said else ""

    def _left(self) -> str:
        """Return how long it is, in words: until all is over where that is known, else what the phase says of itself."""
        left_s = None if self._times is None else self._times.left_s(self._left_s)
        return f"{self._left_s or 0.0:.0f} s left" if left_s is None else f"about {left_s:.0f} s left"

    @contextmanager
    def still(self, text: str, detail: Callable[[], str | None]) -> Iterator[None]:
        """Say now and then, while something long goes on, for how long it has and what it is at."""
        began_s, over = time.monotonic(), threading.Event()

        def tell() -> None:
            while not over.wait(STILL_EVERY_S):
                words = detail()
                elapsed = f"{time.monotonic() - began_s:.0f} s"
                if self._live is not None:  # it shows how long the phase has taken
                    self.phase(text if words is None else f"{text}: {words}")
                else:
                    self.phase(f"{text}: {elapsed if words is None else f'{words}, {elapsed}'}")

        thread = threading.Thread(target=tell, name="still", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def note(self, text: str) -> None:
        """Say something that stays, such as an address to open."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def progress(
        self, share: float, left_s: float, row: dict[str, Any], cores: Mapping[str, float] = NO_PARTS
    ) -> None:
        """Show how far the run is (0 to 1), the seconds left, its live figures, and the cores that each part uses."""
        self._share, self._left_s, self._row, self._cores = share, left_s, row, cores
        if self._live is None and time.monotonic() - self._plain_at >= PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            said = [f"{name} {number(value)}" for name, value in row.items() if value is not None]
            lines = [*_wrapped(f"{share:4.0%}, {self._left()}: ", said), *_wrapped("      ", _said(cores))]
            self._console.print("\n".join(lines), highlight=False, soft_wrap=True)

    def __rich__(self) -> Table:
        """Return what a terminal shows now."""
        table = Table.grid(padding=(0, 2))
        elapsed = Text(f"{time.monotonic() - self._phase_began_s:.0f} s", style="dim")
        usual_s = None if self._times is None else self._times.usual_s(self._phase)
        if usual_s is not None:
            elapsed.append(f" of usually {usual_s:.0f} s")
        table.add_row(Text.assemble((self._phase, "bold"), "  ", elapsed))
        whole_s = None if self._times is None else self._times.left_s(self._left_s)
        if self._left_s is None and whole_s is not None:
            table.add_row(f"about {whole_s:.0f} s left")
        if self._left_s is not None:
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=self._share, width=40), self._left())
            table.add_row(bar)
        if self._row:
            figures = Table.grid(padding=(0, 2))
            row = list(self._row.items())
            for line in (row[at : at + ON_A_LINE] for at in range(0, len(row), ON_A_LINE)):
                figures.add_row(*(Text(name.replace("_", " "), style="dim") for name, _ in line))
                figures.add_row(*(number(value) for _, value in line))
            table.add_row(figures)
        if self._cores:
            table.add_row(Text("\n".join(_wrapped("", _said(self._cores))), style="dim"))
        return table


class JsonDisplay(Display):
    """Says the same as lines of JSON for programs, an object each: phases, notes, and progress once a second.

    Keys: `event` (phase, note or progress), `at_s` since the command began; of a phase or a note its `text`; of a phase what it
    usually takes (`usual_s`); of progress the `share` of the time in which messages are due (0 to 1), `left_s` until that is
    over, and then until the last loss timeout is, and `figures`; of a phase and of progress `all_left_s`, about how long it
    is until the run is over; of progress `cores` too, of each kind of part. null where one is not known.
    """

    def __init__(self, out: TextIO, times: PhaseTimes | None = None) -> None:
        super().__init__(quiet=True, times=times)
        self._out, self._told_s = out, -math.inf

    def phase(self, text: str) -> None:
        usual_s = None
        if self._times is not None:
            self._times.begin(text)
            usual_s = _rounded(self._times.usual_s(text))
        self._tell("phase", text=text, usual_s=usual_s, all_left_s=self._all_left_s())

    def note(self, text: str) -> None:
        self._tell("note", text=text)

    def progress(
        self, share: float, left_s: float, row: dict[str, Any], cores: Mapping[str, float] = NO_PARTS
    ) -> None:
        if time.monotonic() - self._told_s >= JSON_EVERY_S:
            self._told_s = time.monotonic()
            rounded = {
                "share": round(share, 4),
                "left_s": round(left_s, 1),
                "all_left_s": self._all_left_s(left_s),
            }
            used = {part: round(one, 3) for part, one in cores.items()}
            self._tell("progress", **rounded, figures=row, cores=used)

    def _all_left_s(self, own_left_s: float | None = None) -> float | None:
        return None if self._times is None else _rounded(self._times.left_s(own_left_s))

    def _tell(self, event: str, **said: Any) -> None:
        print(json.dumps({"event": event, "at_s": at_s(), **said}), file=self._out, flush=True)


def _said(cores: Mapping[str, float]) -> list[str]:
    """Return the words on the cores in use, the first with what they are."""
    said = [f"{part} {used:.2f}" for part, used in cores.items()]
    return [f"CPU in cores: {said[0]}", *said[1:]] if said else []


def _wrapped(begin: str, said: Sequence[str]) -> list[str]:
    """Return lines of at most `WIDTH` columns that break between what is said, never within it."""
    unbroken = ", ".join(one.replace(" ", "\xa0") for one in said)
    indent = " " * min(len(begin), 6)
    return [line.replace("\xa0", " ") for line in wrap(begin + unbroken, WIDTH, subsequent_indent=indent)]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
