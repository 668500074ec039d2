"""The first paragraph of a study's report: what to choose, and how sure it is; kinds of headline, chosen in study.toml.

A study says `[headline] kind = "choose"` and what that kind needs; without it the extremes of the first metric are
compared. Its numbers are those of the report's table of differences that are more than noise, what a step costs however
little that is; the others are counted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ivsim.study.engines.base import Engine
from ivsim.study.headline_words import (
    MOST_NAMED,
    REST,
    Claim,
    Condition,
    condition,
    joined,
    place_of,
    placeholders,
    ranged,
    rest,
    rises,
)
from ivsim.study.markdown import table
from ivsim.study.pairs import (
    JUDGED,
    Difference,
    Pair,
    Row,
    along,
    by_axis,
    cell_label,
    named,
    units_of,
)
from ivsim.study.results import CellResult, done_of
from ivsim.study.summary import DASH, scaled, written
from schemas.errors import Refusal

UNDEFINED: Final = "undefined"


class Choice(NamedTuple):
    """Values of an axis than which none is better by more than noise, under one condition.

    Attributes:
        unknown: values without any verdict.
        best: that of them with the best figure that is better than another by more than noise.
        next: of those that are out the one with the best figure that `best` is better than.
        figure: that of `next`.
        row: their difference.
    """

    values: tuple[str, ...]
    unknown: tuple[str, ...]
    best: str
    next: str
    figure: float
    row: Row


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

    @property
    @abstractmethod
    def compared(self) -> list[str]:
        """Return the metrics whose differences it says."""

    def named_axes(self) -> list[str]:
        return []

    def named_metrics(self) -> list[str]:
        return self.compared

    @abstractmethod
    def pairs(self, engine: Engine, cells: Sequence[CellResult]) -> list[Pair]:
        """Return the cells that the headline sets against each other."""

    def tests(self, cells: Sequence[CellResult]) -> int | None:
        """Return from how many comparisons those of the headline are chosen; None where all are made."""
        del cells
        return None

    def says(self, row: Row) -> bool:
        """Return whether a difference is one that it says; the others are counted."""
        return row.more_than_noise

    @abstractmethod
    def said(self, engine: Engine, found: Sequence[Difference]) -> str:
        """Return what the differences say, of which it says at least one."""

    def table(self, engine: Engine, found: Sequence[Difference]) -> str:
        """Return the figures of what is said, where they are too many for a sentence; "" where they are not."""
        del engine, found
        return ""

    def closed(self, cells: Sequence[CellResult]) -> str:
        """Return what stands behind the differences whatever they are."""
        del cells
        return ""


class Extremes(Headline):
    """Says by how much one metric, by default the study's first, is less in its lowest cell than in its highest."""

    metric: str

    @property
    def compared(self) -> list[str]:
        return [self.metric]

    def pairs(self, engine: Engine, cells: Sequence[CellResult]) -> list[Pair]:
        known = self._known(cells)
        if len(known) < 2:
            return []
        low, high = (choose(known, key=lambda pair: pair[0])[1] for choose in (min, max))
        step = f"{cell_label(engine, low)} to {cell_label(engine, high)}"
        return [] if low is high else [Pair(step, "", low, high)]

    def tests(self, cells: Sequence[CellResult]) -> int | None:
        """Return every pair of cells: which are the lowest and the highest is chosen by the figures that are tested."""
        return math.comb(len(self._known(cells)), 2)

    def _known(self, cells: Sequence[CellResult]) -> list[tuple[float, CellResult]]:
        return [(value, r) for r in cells if (value := r.interval(self.metric).estimate) is not None]

    def said(self, engine: Engine, found: Sequence[Difference]) -> str:
        ((pair, row),) = found
        low, high = (self._end(engine, cell) for cell in (pair.below, pair.above))
        difference = ranged([row], engine.metrics[self.metric].unit)
        word = "less" if rises(row) else "more"
        return f"{self.metric} is {difference} {word} for {low} than for {high}, n = {units_of([row])}."

    def _end(self, engine: Engine, cell: CellResult) -> str:
        interval, unit = scaled(cell.interval(self.metric), engine.metrics[self.metric].unit)
        return f"{cell_label(engine, cell)} ({f'{written(interval)} {unit}'.strip()})"


class Steps(Headline):
    """Says what each step along an axis changes: the smallest and the largest difference over the other axes.

    Attributes:
        steps: pairs of values of the axis, from and to; one of which no difference is sure is left out.
        each: an axis whose values are listed one by one.
        opening, closing: stand around the steps; `{metric}` in the closing is its sum over the cells that
            `closing_where` names.
    """

    axis: str
    steps: list[tuple[Any, Any]] = Field(min_length=1)
    metrics: list[str] = Field(min_length=1)
    each: str | None = None
    opening: str = ""
    closing: str = ""
    closing_where: dict[str, Any] = {}

    @property
    def compared(self) -> list[str]:
        return self.metrics

    def named_axes(self) -> list[str]:
        return [self.axis, *([self.each] if self.each else []), *self.closing_where]

    def named_metrics(self) -> list[str]:
        return [*self.metrics, *placeholders(self.closing)]

    def says(self, row: Row) -> bool:
        """Return whether it is sure: how much a step costs is the question, and little is an answer."""
        return row.sure

    def pairs(self, engine: Engine, cells: Sequence[CellResult]) -> list[Pair]:
        return along(engine, cells, self.axis, [(str(low), str(high)) for low, high in self.steps])

    def said(self, engine: Engine, found: Sequence[Difference]) -> str:
        brief = self._is_long(engine, found)
        claims = []
        for step, metrics in self._by_step(engine, found).items():
            parts = [
                Claim(f"{metric} {changes}", self._said_rows(some))
                for metric, some in metrics.items()
                if (changes := self._changes(engine, some, brief=brief))
            ]
            if parts:
                claims.append((f"{step}: ", parts))
        words = joined(claims, with_n=not brief)
        return f"{self.opening} {words}.".strip()

    def table(self, engine: Engine, found: Sequence[Difference]) -> str:
        if not self._is_long(engine, found):
            return ""
        rows = [
            [step, metric, changes, units_of(self._said_rows(some))]
            for step, metrics in self._by_step(engine, found).items()
            for metric, some in metrics.items()
            if (changes := self._changes(engine, some))
        ]
        note = "The smallest and the largest difference of a step, each with its 95 % interval."
        return f"{table(['step', 'metric', 'difference', 'n'], rows)}\n\n{note}"

    def _by_step(self, engine: Engine, found: Sequence[Difference]) -> dict[str, dict[str, list[Difference]]]:
        """Return the differences of each metric that a step makes, values of `each` one after another."""
        groups: dict[str, dict[str, dict[str, list[Difference]]]] = {}
        for one in found:
            group = ""
            if self.each is not None:
                group = f"{named(engine, self.each, str(one.pair.below.cell.values.get(self.each)))}, "
            metrics = groups.setdefault(group, {}).setdefault(f"{group}{one.pair.step}", {})
            metrics.setdefault(one.row.metric, []).append(one)
        return {step: metrics for steps in groups.values() for step, metrics in steps.items()}

    def _is_long(self, engine: Engine, found: Sequence[Difference]) -> bool:
        """Return whether more is to be said than a sentence has room for."""
        parts = [some for metrics in self._by_step(engine, found).values() for some in metrics.values()]
        return sum(bool(self._said_rows(some)) for some in parts) > MOST_NAMED

    def _said_rows(self, some: Sequence[Difference]) -> list[Row]:
        return [one.row for one in some if self.says(one.row)]

    def _changes(self, engine: Engine, some: Sequence[Difference], *, brief: bool = False) -> str:
        """Return what a step does to a metric, "" where no difference is sure; brief is without intervals."""
        every = [condition(one.pair, self.axis) for one in some]
        sure = [one for one in some if self.says(one.row)]
        unit = engine.metrics[some[0].row.metric].unit
        said = []
        for word, up in (("more", True), ("less", False)):
            if those := [one for one in sure if rises(one.row) == up]:
                difference = ranged([one.row for one in those], unit, intervals=not brief)
                place = place_of(engine, [condition(one.pair, self.axis) for one in those], every)
                said.append(f"{difference} {word}{'' if brief and len(those) == len(some) else place}")
        if not said:
            return ""
        others = rest([one.row for one in some if not self.says(one.row)])
        behind = f" ({len(sure)} of {len(some)}; {others})" if others else ""
        return f"{' and '.join(said)}{behind}"

    def closed(self, cells: Sequence[CellResult]) -> str:
        wanted = {(axis, str(value)) for axis, value in self.closing_where.items()}
        some = [r for r in cells if wanted <= {(axis, str(value)) for axis, value in r.cell.values.items()}]
        sums = {}
        for metric in placeholders(self.closing):
            figures = [one.figures.get(metric) for r in some for one in r.done]
            known = [figure for figure in figures if figure is not None]
            sums[metric] = f"{sum(known):,}" if known and len(known) == len(figures) else UNDEFINED
        return self.closing.format_map(sums)


class Choose(Headline):
    """Says which value of an axis to choose for each metric, under which conditions, and how far the next is behind.

    A value is out when another one is better by more than noise. Where several are left, they are too close to call.

    Attributes:
        metrics: of which less is better, unless they are among `higher`.
    """

    axis: str
    metrics: list[str] = Field(min_length=1)
    higher: list[str] = []

    @property
    def compared(self) -> list[str]:
        return self.metrics

    def named_axes(self) -> list[str]:
        return [self.axis]

    def check(self, engine: Engine) -> None:
        super().check(engine)
        for name in self.higher:
            if name not in self.metrics:
                raise Refusal(f"headline.higher: {name!r}: allowed are {', '.join(self.metrics)}")

    def pairs(self, engine: Engine, cells: Sequence[CellResult]) -> list[Pair]:
        return along(engine, cells, self.axis, list(combinations(by_axis(cells, self.axis), 2)))

    def said(self, engine: Engine, found: Sequence[Difference]) -> str:
        return " ".join(self._of_metric(engine, metric, found) for metric in self.metrics)

    def table(self, engine: Engine, found: Sequence[Difference]) -> str:
        if not self._is_long(found):
            return ""
        head = ["metric", "under", "choose", "the next is behind by", "of its own figure", "n"]
        rows = [
            self._row(engine, metric, self._under(metric, found), where)
            for metric in self.metrics
            for where in self._under(metric, found)
        ]
        return f"{table(head, rows)}\n\nThe difference and its 95 % interval, and both in per cent of the next's figure."

    def _under(self, metric: str, found: Sequence[Difference]) -> dict[Condition, list[Difference]]:
        under: dict[Condition, list[Difference]] = {}
        for one in found:
            if one.row.metric == metric:
                under.setdefault(condition(one.pair, self.axis), []).append(one)
        return under

    def _is_long(self, found: Sequence[Difference]) -> bool:
        """Return whether more is to be said than a sentence has room for."""
        said = set()
        for metric in self.metrics:
            for some in self._under(metric, found).values():
                choice = self._choice(some)
                said.add((metric, None if choice is None else (choice.values, choice.unknown)))
        return len(said) > MOST_NAMED

    def _row(
        self, engine: Engine, metric: str, under: Mapping[Condition, list[Difference]], where: Condition
    ) -> list[str]:
        """Return what to choose by a metric under one condition, and the figures of that."""
        named_by = [metric, place_of(engine, [where], list(under)).removeprefix(" on ") or DASH]
        choice = self._choice(under[where])
        if choice is None:
            return [*named_by, self._undecided(under[where]), *[DASH] * 3]
        before = f"{named(engine, self.axis, choice.best)} before " if len(choice.values) > 1 else ""
        return [
            *named_by,
            self._any(engine, choice.values) + self._without(engine, choice.unknown),
            f"{before}{named(engine, self.axis, choice.next)}: {ranged([choice.row], engine.metrics[metric].unit)}",
            ranged([choice.row], "%", 100 / choice.figure),
            units_of([choice.row]),
        ]

    def _of_metric(self, engine: Engine, metric: str, found: Sequence[Difference]) -> str:
        under = self._under(metric, found)
        alike: dict[tuple[Any, ...], list[tuple[Condition, Choice]]] = {}
        undecided: dict[str, list[Condition]] = {}
        for where, some in under.items():
            if choice := self._choice(some):
                alike.setdefault((choice.values, choice.unknown), []).append((where, choice))
            else:
                undecided.setdefault(self._undecided(some), []).append(where)
        behind = "; ".join(
            f"{place_of(engine, some, list(under))} {why}".strip() for why, some in undecided.items()
        )
        if not alike:
            return f"{metric} decides nothing: {behind}."
        with_figures = not self._is_long(found)
        claims = [
            self._claim(
                engine,
                metric,
                place_of(engine, [where for where, _ in those], list(under)),
                [choice for _, choice in those],
                with_figures,
            )
            for those in alike.values()
        ]
        said = joined([("", [one]) for one in claims], with_n=with_figures)
        most = "most" if metric in self.higher else "least"
        return f"For {most} {metric} choose {'; '.join(filter(None, (said, behind)))}."

    def _claim(
        self, engine: Engine, metric: str, place: str, choices: Sequence[Choice], with_figures: bool
    ) -> Claim:
        """Return what conditions have in common under which the same is to be chosen."""
        rows = [choice.row for choice in choices]
        several = len(choices[0].values) > 1
        text = f"{self._any(engine, choices[0].values)}{' (too close to call)' if several else ''}{place}"
        if with_figures:
            best = f"{self._any(engine, [choice.best for choice in choices])} is " if several else ""
            text += (
                f": {best}{ranged(rows, engine.metrics[metric].unit)} {'above' if metric in self.higher else 'below'}"
                f" the next ({self._any(engine, [choice.next for choice in choices])})"
            )
        return Claim(text + self._without(engine, choices[0].unknown), rows)

    def _without(self, engine: Engine, unknown: Sequence[str]) -> str:
        return f", without a verdict on {self._any(engine, unknown)}" if unknown else ""

    @staticmethod
    def _undecided(some: Sequence[Difference]) -> str:
        if any(one.row.sure for one in some):
            return "differences are too small to matter"
        judged = any(one.row.verdict in JUDGED for one in some)
        return "no difference is more than noise" if judged else "there is no verdict"

    def _choice(self, some: Sequence[Difference]) -> Choice | None:
        """Return what is left of the values of the axis under one condition; None where no value is out."""
        figures: dict[str, float] = {}
        better: dict[tuple[str, str], Row] = {}
        judged = set()
        for pair, row in some:
            first, second = (str(cell.cell.values[self.axis]) for cell in (pair.below, pair.above))
            for value, side in ((first, row.first), (second, row.second)):
                figures[value] = math.nan if side.estimate is None else side.estimate
            if row.verdict in JUDGED:
                judged |= {first, second}
            if row.more_than_noise:
                second_is = rises(row) == (row.metric in self.higher)
                better[(second, first) if second_is else (first, second)] = row
        order = sorted(judged, key=lambda one: figures[one], reverse=some[0].row.metric in self.higher)
        out = {worse for _, worse in better}
        left = tuple(value for value in figures if value in judged - out)
        unknown = tuple(value for value in figures if value not in judged)
        for worse in order:
            for best in order:
                if best in left and (best, worse) in better:
                    return Choice(left, unknown, best, worse, figures[worse], better[best, worse])
        return None

    def _any(self, engine: Engine, values: Sequence[str]) -> str:
        return " or ".join(dict.fromkeys(named(engine, self.axis, one) for one in values))


# kind in study.toml -> its class; a new kind is one class and one line
HEADLINES: Final[dict[str, type[Headline]]] = {
    "extremes": Extremes,
    "steps": Steps,
    "choose": Choose,
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


def headline(
    chosen: Headline, engine: Engine, results: Sequence[CellResult], found: Sequence[Difference]
) -> str:
    """Return the first paragraph, of the differences between the cells that the headline compares."""
    done = done_of(about(chosen, results))
    if not done:
        return "Nothing was measured."
    return " ".join(filter(None, (_answer(chosen, engine, found), chosen.closed(done))))


def opening(
    chosen: Headline, engine: Engine, results: Sequence[CellResult], found: Sequence[Difference]
) -> str:
    """Return the first paragraph as Markdown, with the table of what it chooses where a sentence has no room for that."""
    sure = any(chosen.says(one.row) for one in found)
    rows = chosen.table(engine, found) if sure else ""
    return "\n\n".join(filter(None, (f"**{headline(chosen, engine, results, found)}**", rows)))


def _answer(chosen: Headline, engine: Engine, found: Sequence[Difference]) -> str:
    rows = [one.row for one in found]
    judged = [row for row in rows if row.verdict in JUDGED]
    if not rows:
        return "It compares no two cells."
    if not judged:
        return f"No verdict on any difference: {', '.join(dict.fromkeys(row.verdict for row in rows))}."
    unsaid = [row for row in rows if not chosen.says(row)]
    if len(unsaid) < len(rows):
        behind = f" Of {len(rows)} differences compared, {more}." if (more := rest(unsaid)) else ""
        return chosen.said(engine, found) + behind
    if len(rows) == 1:
        return f"The difference that it compares is {REST[rows[0].verdict]}."
    if any(row.sure for row in rows):
        return f"Of {len(rows)} differences compared, {rest(rows)}."
    open_ = rest([row for row in rows if row.verdict not in JUDGED])
    said = f"None of the {len(judged)} differences that it compares is more than noise"
    return f"{said}; {open_}." if open_ else f"{said}."


def about(chosen: Headline, results: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells that a headline is about, measured or not."""
    return [r for r in results if chosen.sweep is None or r.cell.sweep == chosen.sweep]
