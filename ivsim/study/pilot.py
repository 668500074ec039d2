"""How many repetitions of a study reach an interval of a wanted width, from the results of a pilot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scipy import special

from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.results import CellResult
from ivsim.study.statistics import CONFIDENCE, Interval
from ivsim.study.store import Store
from ivsim.study.summary import DASH, scaled, short, written
from schemas.errors import Refusal

MOST: Final = 1_000
RESULTS: Final = Path("results") / "studies"


class Width(NamedTuple):
    """A width of an interval from end to end: of the estimate, or in the metric's unit."""

    value: float
    relative: bool

    def of(self, estimate: float) -> float:
        return self.value * abs(estimate) if self.relative else self.value


class Needed(NamedTuple):
    """What one cell needs; `repetitions` is None where the pilot says nothing of it, or more than MOST."""

    cell: str
    now: Interval
    unit: str
    repetitions: int | None
    why: str = ""


class Planned(NamedTuple):
    """The answer for all cells of a study."""

    metric: str
    rows: list[Needed]
    notes: list[str]

    @property
    def answer(self) -> str:
        known = [row.repetitions for row in self.rows if row.repetitions is not None]
        missing = len(self.rows) - len(known)
        most = (
            f"repetitions = {max(known)} reaches it in {len(known)} of {len(self.rows)} cells"
            if known
            else ""
        )
        return most or f"in none of the {missing} cells can it be said"


def width_of(text: str, option: str = "--width") -> Width:
    """Return a width as an option has it: `12.5`, or `10%` of the estimate."""
    relative = text.endswith("%")
    try:
        value = float(text.removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise Refusal(
            f"{option} {text}: a number above 0 in the metric's unit, or a percentage of the estimate such as 10%"
        )
    return Width(value, relative)


def where(name: str, pilot: Path | None) -> Path:
    """Return the pilot's results: those named, or where a study's results go by default."""
    if pilot is not None:
        return pilot
    named = Path(name)
    here = [named, RESULTS / name, RESULTS / f"{name}-quick"]
    for path in here:
        if (path / "study.json").is_file():
            return path
    raise Refusal(
        f"{name}: a plan needs a pilot's results, and there are none in {RESULTS / name}: run `ivsim study run {name}`"
        f" with {MIN_REPETITIONS} repetitions (or --quick, which says less) and give its directory as --pilot"
    )


def plan(store: Store, results: Sequence[CellResult], width: Width, metric: str | None = None) -> Planned:
    """Return the repetitions that each cell needs; Refusal for a metric that the study has not.

    The variance of an estimate falls with the number of repetitions. Its degrees of freedom, and so Student's t, grow
    with the repetitions where these differ among themselves, else with all units.
    """
    chosen = metric or store.study.metrics[0]
    if chosen not in store.study.measured_by.metrics:
        raise Refusal(f"--metric {chosen}: metrics of the study are {', '.join(store.study.metrics)}")
    unit = store.study.metric(chosen).unit
    rows = [
        Needed(r.cell.name, r.interval(chosen), unit, *needed(r.interval(chosen), width)) for r in results
    ]
    notes = []
    fewest = min((len(r.done) for r in results if r.done), default=0)
    if fewest < MIN_REPETITIONS:
        notes.append(
            f"the pilot has {fewest} repetitions: what differs from one to the next is not in it, and more may be needed"
        )
    if store.quick:
        notes.append("the pilot is a quick run, shorter and with fewer vehicles: fewer repetitions may do")
    return Planned(chosen, rows, notes)


def needed(now: Interval, width: Width) -> tuple[int | None, str]:
    """Return the least number of repetitions, or None and why."""
    if now.estimate is None:
        return None, "not measured"
    if now.low is None or now.high is None or now.freedom is None or not now.repetitions:
        return None, "the pilot has no interval"
    wanted = width.of(now.estimate)
    if wanted == 0 and now.high > now.low:
        return None, "the estimate is 0: give the width in the metric's unit"
    # Of the longer side twice, as an interval may lean.
    half = max(now.high - now.estimate, now.estimate - now.low)
    spread = half / _t(now.freedom)
    for repetitions in range(MIN_REPETITIONS, MOST + 1):
        share = repetitions / now.repetitions
        freedom = freedom_at(repetitions, now.freedom, now.repetitions)
        if 2 * _t(freedom) * spread / math.sqrt(share) <= wanted:
            return repetitions, ""
    return None, f"more than {MOST}"


def freedom_at(repetitions: int, freedom: float, now: int) -> float:
    """Return the degrees of freedom of so many repetitions, from those of the pilot's, `now` of them."""
    between = freedom <= now - 1
    return repetitions - 1 if between else max(freedom, 1) * repetitions / now


def _t(freedom: float) -> float:
    return float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def as_table_row(row: Needed) -> tuple[str, str, str, str]:
    """Return a row as a table shows it."""
    now, unit = scaled(row.now, row.unit)
    width = DASH if now.low is None or now.high is None else f"{short(now.high - now.low)} {unit}".strip()
    return row.cell, f"{written(now)} {unit}".strip(), width, row.why or str(row.repetitions)
