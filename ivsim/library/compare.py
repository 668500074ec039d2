"""Two runs side by side: every figure of both, the difference, and what else differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ivsim.library.results import Results
from ivsim.study.clusters import difference_of_intervals
from ivsim.study.engines.whole_run.observations import LedgerObservations
from ivsim.study.statistics import Comparison, Interval
from ledger.metrics import METRICS, Metric

# Of the run, not of what it is asked to do.
_OWN = frozenset({"seed", "name", "tags"})


class Row(NamedTuple):
    """One figure of both runs.

    Attributes:
        first: with an interval over the run's vehicles where the figure is of its messages.
        comparison: the difference with its interval; None where there is none.
    """

    metric: Metric
    first: Interval
    second: Interval
    comparison: Comparison | None

    @property
    def difference(self) -> float | None:
        """Return second - first; None where either is not measured."""
        if self.first.estimate is None or self.second.estimate is None:
            return None
        return self.second.estimate - self.first.estimate


class Compared(NamedTuple):
    """What differs beside the figures, a line each, and every figure that one of the two has.

    Attributes:
        cautions: those of the notes by which a difference may be of something else than what was asked for.
    """

    notes: list[str]
    rows: list[Row]
    cautions: list[str]


def compare_runs(first: Results, second: Results) -> Compared:
    """Return two runs side by side.

    Intervals are over a run's vehicles (ivsim.study.clusters): they say how sure a figure is of this run, under this
    stretch of the trace, and nothing of the next one. A verdict takes repetitions, which a study has.
    """
    sides = [(run, LedgerObservations([Path(run.directory)])) for run in (first, second)]
    rows = []
    for name, metric in METRICS.items():
        a, b = (_interval(run, seen, name) for run, seen in sides)
        if a.estimate is None and b.estimate is None:
            continue
        rows.append(Row(metric, a, b, difference_of_intervals(a, b)))
    notes = list(_notes(first, second))
    return Compared([note for _, note in notes], rows, [note for cautions, note in notes if cautions])


def _interval(run: Results, seen: LedgerObservations, name: str) -> Interval:
    """Return the run's own figure, with the interval of its messages where there is one."""
    value = run.metrics.get(name)
    if value is None:
        return Interval(None, None, None, 0)
    found = seen.interval(name)
    if found is None or found.low is None or found.high is None:
        return Interval(float(value), None, None, 1)
    return found._replace(estimate=float(value))


def _notes(first: Results, second: Results) -> Iterator[tuple[bool, str]]:
    """Yield each note with whether it is a caution."""
    one, two = first.manifest, second.manifest
    if changed := _changed(one["options"], two["options"], _OWN):
        yield False, f"options differ: {changed}"
    else:
        yield False, "the same options"
    if (tags := [run["options"].get("tags") or [] for run in (one, two)])[0] != tags[1]:
        yield False, f"tags differ: {' and '.join(' '.join(map(str, own)) or 'none' for own in tags)}"
    if one["seed"] == two["seed"]:
        yield False, f"seed {one['seed']} in both: the same messages over the same stretches of the trace"
    else:
        yield (
            True,
            f"seeds differ ({one['seed']} and {two['seed']}): other content, other stretches of the trace",
        )
    for what, words in (("versions", "versions"), ("machine", "machines")):
        if changed := _changed(one.get(what) or {}, two.get(what) or {}):
            yield True, f"{words} differ: {changed}; a difference may be theirs"
    for run in (first, second):
        verdict = (run.metrics.get("validity") or {}).get("verdict", "unknown")
        if verdict != "valid":
            yield True, f"{run.directory} is {verdict}"
    yield False, "one run each: intervals are over vehicles; for a verdict run a study with repetitions"


def _changed(a: Mapping[str, Any], b: Mapping[str, Any], without: frozenset[str] = frozenset()) -> str:
    names = [name for name in dict.fromkeys([*a, *b]) if name not in without and a.get(name) != b.get(name)]
    return ", ".join(f"{name} ({a.get(name)} and {b.get(name)})" for name in names)
