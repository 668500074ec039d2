"""The first sentence of a study's report, computed from its figures: kinds of headline, chosen in study.toml.

A study says `[headline] kind = "steps"` and what that kind needs; without it the extremes of the first metric are
named. Every number of the sentence is a figure of the results; only the words around it stand in study.toml.
"""

from __future__ import annotations

import string
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ivsim.study.engines.base import Engine
from ivsim.study.pairs import Pair, along, by_axis, cell_label, label, others
from ivsim.study.results import CellResult, done_of
from ivsim.study.statistics import Interval
from ivsim.study.summary import scaled, short, written
from schemas.errors import Refusal

UNDEFINED: Final = "undefined"
# What may stand behind a metric's name in a text, such as {vehicle_month_bytes:MB}.
SCALES: Final = {"kB": 1e3, "MB": 1e6, "GB": 1e9}


class Headline(BaseModel):
    """One kind of headline with what a study has chosen for it; unknown keys are refused.

    Attributes:
        kind: a row of HEADLINES.
        sweep: the sweep that it is about; all of them where there is none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    sweep: str | None = None

    def check(self, engine: Engine) -> None:
        """Refuse axes and metrics that the engine has not."""
        for name in self.named_axes():
            if name not in engine.axes():
                raise Refusal(
                    f"headline: axis {name!r}: the engine {engine.name} has {', '.join(engine.axes())}"
                )
        for name in self.named_metrics():
            if name not in engine.metrics:
                raise Refusal(
                    f"headline: metric {name!r}: `ivsim study metrics` lists those of {engine.name}"
                )

    def named_axes(self) -> list[str]:
        return []

    def named_metrics(self) -> list[str]:
        return []

    def pairs(self, engine: Engine, done: Sequence[CellResult]) -> list[Pair]:
        """Return the cells that the headline sets against each other."""
        del engine, done
        return []

    @abstractmethod
    def sentence(self, engine: Engine, done: Sequence[CellResult]) -> str:
        """Return the headline of cells that were measured, at least one."""


class Extremes(Headline):
    """Names the lowest and the highest cell of one metric, by default the study's first."""

    metric: str

    def named_metrics(self) -> list[str]:
        return [self.metric]

    def pairs(self, engine: Engine, done: Sequence[CellResult]) -> list[Pair]:
        del engine
        ends = self._ends(done)
        if len(ends) < 2 or ends[0] is ends[1]:
            return []
        return [Pair(f"{cell_label(ends[0])} to {cell_label(ends[1])}", "", *ends)]

    def _ends(self, done: Sequence[CellResult]) -> list[CellResult]:
        """Return the lowest and the highest cell; none where the metric is defined in none."""
        known = [(value, r) for r in done if (value := r.interval(self.metric).estimate) is not None]
        return [choose(known, key=lambda pair: pair[0])[1] for choose in (min, max)] if known else []

    def sentence(self, engine: Engine, done: Sequence[CellResult]) -> str:
        ends = self._ends(done)
        if not ends:
            return f"{self.metric} is defined in no cell."
        low, high = (self._end(engine, result) for result in ends)
        return f"{self.metric} is lowest for {low} and highest for {high}."

    def _end(self, engine: Engine, result: CellResult) -> str:
        interval, unit = scaled(result.interval(self.metric), engine.metrics[self.metric].unit)
        return f"{cell_label(result)} with {written(interval)} {unit}".strip()


class Steps(Headline):
    """Says what each step along an axis changes: medians, over the other axes, before it and after it and of the differences.

    Attributes:
        steps: pairs of values of the axis, from and to; one of which no pair was measured is left out.
        metrics: metric to what is written behind its number.
        each: an axis whose values are listed one by one.
        opening, closing: stand around the steps; `{metric}` in the closing is its sum over the cells that
            `closing_where` names.
    """

    axis: str
    steps: list[tuple[Any, Any]] = Field(min_length=1)
    metrics: dict[str, str] = Field(min_length=1)
    each: str | None = None
    opening: str = ""
    closing: str = ""
    closing_where: dict[str, Any] = {}

    def named_axes(self) -> list[str]:
        return [self.axis, *([self.each] if self.each else []), *self.closing_where]

    def named_metrics(self) -> list[str]:
        return [*self.metrics, *placeholders(self.closing)]

    def pairs(self, engine: Engine, done: Sequence[CellResult]) -> list[Pair]:
        return along(engine, done, self.axis, [(str(low), str(high)) for low, high in self.steps])

    def sentence(self, engine: Engine, done: Sequence[CellResult]) -> str:
        groups = {"": done}
        if self.each is not None:
            groups = {
                f"{label(engine, self.each, one)} ": some for one, some in by_axis(done, self.each).items()
            }
        found = [
            f"{name}{self._named(engine, low, high)}{step}"
            for name, some in groups.items()
            for low, high in self.steps
            if (step := self._step(some, low, high))
        ]
        return f"{self.opening} {'; '.join(found) or UNDEFINED}.{self._closed(done)}".strip()

    def _named(self, engine: Engine, low: Any, high: Any) -> str:
        """Return the step's name; "" for the only one of a headline that goes by another axis."""
        if self.each is not None and len(self.steps) == 1:
            return ""
        return f"{label(engine, self.axis, low)} to {label(engine, self.axis, high)}: "

    def _step(self, done: Sequence[CellResult], low: Any, high: Any) -> str:
        at = {(others(r, self.axis), str(r.cell.values.get(self.axis))): r for r in done}
        pairs = [
            (below, at.get((beside, str(high)))) for (beside, value), below in at.items() if value == str(low)
        ]
        if all(above is None for _, above in pairs):
            return ""
        parts: list[str] = []
        numbers: list[int] = []
        for metric, unit in self.metrics.items():
            known = [
                (a, b)
                for below, above in pairs
                if above is not None
                and (a := below.interval(metric).estimate) is not None
                and (b := above.interval(metric).estimate) is not None
            ]
            if not known:
                parts.append(f"{UNDEFINED} {unit}")
                continue
            before, after = (median(side) for side in zip(*known, strict=True))
            difference = median(b - a for a, b in known)
            word = "less" if difference < 0 else "more"
            parts.append(f"{short(before)} to {short(after)} {unit} ({short(abs(difference))} {word})")
            numbers.append(len(known))
        return ", ".join([*parts, *([f"n = {min(numbers)}"] if numbers else [])])

    def _closed(self, done: Sequence[CellResult]) -> str:
        wanted = {(axis, str(value)) for axis, value in self.closing_where.items()}
        some = [r for r in done if wanted <= {(axis, str(value)) for axis, value in r.cell.values.items()}]
        sums = {}
        for metric in placeholders(self.closing):
            figures = [one.figures.get(metric) for r in some for one in r.done]
            known = [figure for figure in figures if figure is not None]
            sums[metric] = f"{sum(known):,}" if known and len(known) == len(figures) else UNDEFINED
        return f" {self.closing.format_map(sums)}" if self.closing else ""


class EachValue(Headline):
    """Says one text for each value of an axis: `{value}` and `{metric}`, the mean over the cells of the value."""

    axis: str
    text: str
    opening: str = ""

    def named_axes(self) -> list[str]:
        return [self.axis]

    def named_metrics(self) -> list[str]:
        return [name for name in placeholders(self.text) if name != "value"]

    def pairs(self, engine: Engine, done: Sequence[CellResult]) -> list[Pair]:
        return along(engine, done, self.axis, list(combinations(by_axis(done, self.axis), 2)))

    def check(self, engine: Engine) -> None:
        super().check(engine)
        for _, _, scale, _ in string.Formatter().parse(self.text):
            if scale and scale not in SCALES:
                raise Refusal(f"headline: {scale!r} behind a metric: allowed are {', '.join(SCALES)}")

    def sentence(self, engine: Engine, done: Sequence[CellResult]) -> str:
        found = [self._said(engine, value, some) for value, some in by_axis(done, self.axis).items()]
        return f"{self.opening} {'; '.join(found)}.".strip()

    def _said(self, engine: Engine, value: str, some: Sequence[CellResult]) -> str:
        parts = []
        for text, name, scale, _ in string.Formatter().parse(self.text):
            parts.append(text)
            if name == "value":
                parts.append(label(engine, self.axis, value))
            elif name is not None:
                known = [v for r in some if (v := r.interval(name).estimate) is not None]
                mean = fmean(known) / SCALES.get(scale or "", 1.0) if known else None
                shown = scaled(Interval(mean, None, None, len(known)), engine.metrics[name].unit)[0].estimate
                parts.append(UNDEFINED if shown is None else short(shown))
        return "".join(parts)


# kind in study.toml -> its class; a new kind is one class and one line
HEADLINES: Final[dict[str, type[Headline]]] = {
    "extremes": Extremes,
    "steps": Steps,
    "each": EachValue,
}


def headline_of(chosen: Mapping[str, Any], metrics: Sequence[str]) -> Headline:
    """Return the headline that a study has chosen; Refusal names the key and what is allowed."""
    if not chosen:
        return Extremes(kind="extremes", metric=metrics[0])
    kind = chosen.get("kind")
    if kind not in HEADLINES:
        raise Refusal(f"headline.kind {kind!r}: allowed are {', '.join(HEADLINES)}")
    try:
        return HEADLINES[kind].model_validate(dict(chosen))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in ("headline", *first["loc"]))
        keys = (
            f"; keys are {', '.join(HEADLINES[kind].model_fields)}"
            if first["type"] == "extra_forbidden"
            else ""
        )
        raise Refusal(f"{key}: {first['msg']}{keys}") from None


def headline(chosen: Headline, engine: Engine, results: Sequence[CellResult]) -> str:
    """Return the sentence; says so when nothing was measured."""
    done = about(chosen, results)
    return chosen.sentence(engine, done) if done else "Nothing was measured."


def about(chosen: Headline, results: Sequence[CellResult]) -> list[CellResult]:
    """Return the measured cells that a headline is about."""
    return [r for r in done_of(results) if chosen.sweep is None or r.cell.sweep == chosen.sweep]


def placeholders(text: str) -> list[str]:
    """Return the names in braces, each once."""
    return list(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(text) if name))
