"""What a run says while it goes: a live view on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ivsim.report.style import number

PLAIN_EVERY_S = 10.0


class Display:
    """Shows the phase, the messages so far and the live figures; all of it goes to standard error."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live: Live | None = None
        self._phase = ""
        self._row: dict[str, Any] = {}
        self._share = 0.0
        self._left_s: float | None = None
        self._plain_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._draw(), console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, at)
            self._live = None

    def phase(self, text: str) -> None:
        """Say what is being done now."""
        self._phase = text
        if self._live is None:
            self._console.print(text, highlight=False)
        else:
            self._live.update(self._draw())

    def note(self, text: str) -> None:
        """Say something that stays, such as an address to open."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def progress(self, share: float, left_s: float, row: dict[str, Any]) -> None:
        """Show how far the run is (0 to 1), the seconds left, and its live figures."""
        self._share, self._left_s, self._row = share, left_s, row
        if self._live is not None:
            self._live.update(self._draw())
        elif time.monotonic() - self._plain_at >= PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            figures = ", ".join(f"{name} {number(value)}" for name, value in row.items() if value is not None)
            self._console.print(
                f"{share:4.0%}, {left_s:.0f} s left: {figures}", highlight=False, soft_wrap=True
            )

    def _draw(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(Text(self._phase, style="bold"))
        if self._left_s is not None:
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=self._share, width=40), f"{self._left_s:.0f} s left")
            table.add_row(bar)
        if self._row:
            figures = Table.grid(padding=(0, 2))
            figures.add_row(*(Text(name.replace("_", " "), style="dim") for name in self._row))
            figures.add_row(*(number(value) for value in self._row.values()))
            table.add_row(figures)
        return table
