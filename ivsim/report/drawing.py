"""A chart drawn once: text for a page, or a file for a paper; every chart of runs and studies is one of these."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from ivsim.report.style import MATPLOTLIB
from schemas.errors import Refusal

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# What `savefig` is told besides the name; no file holds when it was made, so that the same chart gives the same bytes.
FORMATS: Final[Mapping[str, Mapping[str, Any]]] = {
    "svg": {"metadata": {"Date": None}},
    "png": {"dpi": 300, "metadata": {"Software": None}},
    "pdf": {"metadata": {"CreationDate": None, "Producer": None, "Creator": None}},
}
# Marks above this number are drawn as one picture inside the chart: a page of a million marks opens nowhere.
MOST_MARKS: Final = 2_000
MARKS_DPI: Final = 200


class Drawing:
    """A finished chart.

    Args:
        draw: gets the axes, or their row where there are several columns.
        size: in inches; None takes the style's.
        columns: how many axes stand side by side.
        share: they share their y axis.
        text: letters stay letters in SVG, which then needs the reader's fonts; otherwise they are outlines.
    """

    def __init__(
        self,
        draw: Callable[[Any], None],
        size: tuple[float, float] | None = None,
        columns: int = 1,
        *,
        share: bool = True,
        text: bool = False,
    ) -> None:
        # 42: fonts as TrueType, which publishers ask for.
        self._style = {**MATPLOTLIB, "svg.fonttype": "none" if text else "path", "pdf.fonttype": 42}
        with mpl.rc_context(self._style):
            self._figure = Figure(figsize=size, dpi=MARKS_DPI)
            draw(self._figure.subplots(1, columns, sharey=share and columns > 1))

    @property
    def axes(self) -> Sequence[Axes]:
        """The axes, from left to right."""
        return self._figure.axes

    def svg(self) -> str:
        """Return the chart as an SVG element, without the XML prologue."""
        buffer = io.StringIO()
        self._save(buffer, "svg")
        text = buffer.getvalue()
        return text[text.index("<svg") :]

    def save(self, path: Path, to: str) -> None:
        """Write the chart as a file; Refusal for a format that is none of FORMATS."""
        if to not in FORMATS:
            raise Refusal(f"charts as {to!r}: allowed are {', '.join(FORMATS)}")
        self._save(path, to)

    def _save(self, target: Any, to: str) -> None:
        with mpl.rc_context(self._style):
            # Laid out once, here. While a figure has a layout engine, `savefig` draws it once more, unseen, to lay it out.
            if layout := self._figure.get_layout_engine():
                layout.execute(self._figure)
                with mpl.rc_context({"figure.constrained_layout.use": False}):
                    self._figure.set_layout_engine(None)
            self._figure.savefig(target, format=to, **FORMATS[to])


# Name of its SVG file -> the figure and its caption.
Charts = dict[str, tuple[Drawing, str]]
