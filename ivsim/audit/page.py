"""The report's tables, read out of its HTML as a reader sees them: every figure, and bytes by purpose."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from ivsim.audit.result import BadResult, Result


class _Tables(HTMLParser):
    """Collects every table below the heading before it, and the cells that name a metric."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: dict[str, list[list[str]]] = {}
        self.metrics: dict[str, tuple[str, str]] = {}
        self._heading, self._text = "", ""
        self._collecting = False
        self._metric: tuple[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.tables.setdefault(self._heading, []).append([])
        if tag in {"h2", "td"}:
            self._text, self._collecting = "", True
            found = dict(attrs)
            name, value = found.get("data-metric"), found.get("data-value")
            self._metric = (name, value or "") if name else None

    def handle_data(self, data: str) -> None:
        if self._collecting:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"h2", "td"}:
            return
        self._collecting = False
        if tag == "h2":
            self._heading = self._text
            return
        self.tables.setdefault(self._heading, [[]])[-1].append(self._text)
        if self._metric is not None:
            self.metrics[self._metric[0]] = (self._metric[1], self._text)


class Page:
    """What a report says.

    Attributes:
        values: of every metric, to the last digit.
        texts: the same as a reader sees them.
        purposes: wire bytes as a reader sees them, uplink and downlink, by purpose; empty without that table.
    """

    def __init__(self, result: Result) -> None:
        path = result.file("report.html")
        tables = _Tables()
        tables.feed(path.read_text(encoding="utf-8"))
        tables.close()
        if not tables.metrics:
            raise BadResult(f"{path}: has no table of figures")
        try:
            self.values: dict[str, Any] = {
                name: json.loads(value) for name, (value, _) in tables.metrics.items()
            }
        except ValueError:
            raise BadResult(f"{path}: a figure is no JSON") from None
        self.texts = {name: text for name, (_, text) in tables.metrics.items()}
        rows = tables.tables.get("Where the bytes went", [])
        self.purposes = {row[0]: tuple(row[1:]) for row in rows if row}


def as_read(value: Any, unit: str = "") -> str:
    """Return a figure as the report prints it: whole numbers in full, ratios to 4 places, others to 3 digits or 0.1."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        text = f"{value:,}"
    elif unit == "ratio":
        text = f"{value:,.4f}"
    else:
        text = f"{value:,.1f}" if abs(value) >= 100 else f"{value:,.3g}"
    return text if unit in {"", "ratio"} else f"{text} {unit}"


def unit_of(metric: str) -> str:
    """Return the unit that a metric's name ends with; "" for a count."""
    if metric.endswith("_ratio"):
        return "ratio"
    if metric.endswith("_ms"):
        return "ms"
    if metric.endswith("_s"):
        return "s"
    if metric.endswith("_bps"):
        return "bit/s"
    return "B" if "_bytes_" in metric else ""
