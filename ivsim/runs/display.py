"""What a run says while it goes: a live view on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ivsim.report.style import number
from ivsim.runs.phase_times import PhaseTimes

PLAIN_EVERY_S = 10.0
STILL_EVERY_S = 5.0
JSON_EVERY_S = 1.0


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
        self._plain_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._draw, console=self._console, refresh_per_second=4, transient=True
            )
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

    def progress(self, share: float, left_s: float, row: dict[str, Any]) -> None:
        """Show how far the run is (0 to 1), the seconds left, and its live figures."""
        self._share, self._left_s, self._row = share, left_s, row
        if self._live is None and time.monotonic() - self._plain_at >= PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            figures = ", ".join(f"{name} {number(value)}" for name, value in row.items() if value is not None)
            self._console.print(f"{share:4.0%}, {self._left()}: {figures}", highlight=False, soft_wrap=True)

    def _draw(self) -> Table:
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
            figures.add_row(*(Text(name.replace("_", " "), style="dim") for name in self._row))
            figures.add_row(*(number(value) for value in self._row.values()))
            table.add_row(figures)
        return table


class JsonDisplay(Display):
    """Says the same as lines of JSON for programs, an object each: phases, notes, and progress once a second.

    Keys: `event` (phase, note or progress), `at_s` since the beginning; of a phase or a note its `text`; of a phase what it
    usually takes (`usual_s`); of progress `share` (0 to 1), `left_s` until the last loss timeout is over, and `figures`; of a
    phase and of progress `all_left_s`, about how long it is until the run is over. null where one is not known.
    """

    def __init__(self, out: TextIO, times: PhaseTimes | None = None) -> None:
        super().__init__(quiet=True, times=times)
        self._out, self._began_s, self._told_s = out, time.monotonic(), -math.inf

    def phase(self, text: str) -> None:
        usual_s = None
        if self._times is not None:
            self._times.begin(text)
            usual_s = _rounded(self._times.usual_s(text))
        self._tell("phase", text=text, usual_s=usual_s, all_left_s=self._all_left_s())

    def note(self, text: str) -> None:
        self._tell("note", text=text)

    def progress(self, share: float, left_s: float, row: dict[str, Any]) -> None:
        if time.monotonic() - self._told_s >= JSON_EVERY_S:
            self._told_s = time.monotonic()
            rounded = {
                "share": round(share, 4),
                "left_s": round(left_s, 1),
                "all_left_s": self._all_left_s(left_s),
            }
            self._tell("progress", **rounded, figures=row)

    def _all_left_s(self, own_left_s: float | None = None) -> float | None:
        return None if self._times is None else _rounded(self._times.left_s(own_left_s))

    def _tell(self, event: str, **said: Any) -> None:
        at_s = round(time.monotonic() - self._began_s, 3)
        print(json.dumps({"event": event, "at_s": at_s, **said}), file=self._out, flush=True)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
