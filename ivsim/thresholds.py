"""What a run must reach, as a person writes it: parsed against the table of figures, judged, and written as JUnit XML.

    p99(end_to_end) < 1s
    delivery_ratio == 1
    lost_at_broker <= 0

A threshold is a figure, a comparison and a value. The figure is a name of METRICS, or a quantile of something timed. The
value has a unit of the figure's kind; a time without one is refused, since 1000 may be meant in ms or in s, but where the
figure's name ends with its unit (end_to_end_latency_p99_ms < 500), which is then meant. A figure that
the run did not measure meets nothing: it is said to be not measured, and counts as a threshold that is not met.
"""

from __future__ import annotations

import math
import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from xml.etree import ElementTree as ET

from ledger.metrics import METRICS, QUANTILES
from schemas.errors import Refusal

# A run that did what it was asked to, and whose figures miss a threshold.
EXIT_MISSED: Final = 3
Verdict = Literal["met", "missed", "not measured"]
# The option whose conditions end a run early.
ABORT_ON: Final = "--abort-on"
# Live figures, with their units. Quantiles are of all messages so far, as the streaming job has them.
LIVE_FIGURES: Final = {
    "end_to_end_latency_p50_ms": "ms",
    "end_to_end_latency_p99_ms": "ms",
    "emitted": "1",
    "acknowledged": "1",
    "refused": "1",
    "unsent": "1",
    "disconnected": "1",
    "connect_failed": "1",
}

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
# Unit of a figure -> units that a person may write -> their factor to it; "" is a bare number.
# Decimal as they are written: in binary 95 * 0.01 is not 0.95.
_UNITS: Final[dict[str, dict[str, Decimal]]] = {
    figure: {unit: Decimal(factor) for unit, factor in units.items()}
    for figure, units in {
        "ms": {"ns": "1e-6", "us": "1e-3", "ms": "1", "s": "1e3", "min": "60e3"},
        "s": {"ms": "1e-3", "s": "1", "min": "60", "h": "3600"},
        "ratio": {"": "1", "%": "0.01"},
        "B": {"": "1", "B": "1", "kB": "1e3", "MB": "1e6", "GB": "1e9"},
        "bit/s": {"": "1", "bit/s": "1", "kbit/s": "1e3", "Mbit/s": "1e6", "Gbit/s": "1e9"},
        "1": {"": "1"},
    }.items()
}
_FORM: Final = re.compile(
    r"\s*(?:(?P<quantile>\w+)\s*\(\s*(?P<subject>\w+)\s*\)|(?P<name>\w+))"
    r"\s*(?P<comparison><=|>=|==|!=|<|>)"
    r"\s*(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>[A-Za-z/%]*)\s*",
    re.ASCII,
)
# Figures that may be.
_BELOW_0: Final = ("clock_drift_ms",)
_TIMED: Final = re.compile(rf"(\w+)_({'|'.join(QUANTILES)})_ms")
_SHOWN: Final = 80
MOST_LISTED: Final = 20
_EXAMPLES: Final = "'p99(end_to_end) < 1s' or 'delivery_ratio == 1'"


class Threshold(NamedTuple):
    """One threshold.

    Attributes:
        text: as it was written, spaces at the ends left out.
        figure: a name of the table it was parsed against.
        comparison: <, <=, >, >=, == or !=.
        limit: in `unit`.
        unit: of the figure.
    """

    text: str
    figure: str
    comparison: str
    limit: float
    unit: str

    def judge(self, value: float | None) -> Judged:
        """Return whether this value meets it; None was not measured."""
        if value is None:
            return Judged(self, None, "not measured")
        met = _COMPARISONS[self.comparison](value, self.limit)
        return Judged(self, value, "met" if met else "missed")


class Judged(NamedTuple):
    """A threshold beside what was measured; `value` is in the threshold's unit, None where there is no measurement."""

    threshold: Threshold
    value: float | None
    verdict: Verdict

    @property
    def words(self) -> str:
        """Return threshold, verdict and value in one line."""
        unit = {"1": "", "ratio": ""}.get(self.threshold.unit, f" {self.threshold.unit}")
        found = "" if self.value is None else f": {self.value:.10g}{unit}"
        return f"{self.threshold.text}: {self.verdict}{found}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON file."""
        return {**self.threshold._asdict(), "value": self.value, "verdict": self.verdict}


def figures() -> dict[str, str]:
    """Return the name of every figure of a finished run with its unit."""
    return {metric.name: metric.unit for metric in METRICS.values()}


def parse(text: str, option: str = "--threshold", table: Mapping[str, str] | None = None) -> Threshold:
    """Return a threshold.

    Args:
        text: see the module.
        option: how a refusal calls it.
        table: name -> unit of the figures that it may name; None is `figures()`.

    Raises Refusal for an unknown figure, a value that is no number, or a unit that is not the figure's.
    """
    names = figures() if table is None else table
    shown = repr(text[:_SHOWN])
    found = _FORM.fullmatch(text)
    if found is None:
        raise Refusal(
            f"{option} {shown}: write a figure, one of {' '.join(_COMPARISONS)}, and a value: {_EXAMPLES}"
        )
    try:
        figure = _figure(found, names)
        # A time's own name says its unit; the other kinds take a bare number anyway.
        meant = names[figure] if found["name"] and "" not in _UNITS[names[figure]] else ""
        limit = _limit(found["number"], found["unit"] or meant, names[figure], figure)
    except ValueError as error:
        raise Refusal(f"{option} {shown}: {error}") from None
    return Threshold(text.strip(), figure, found["comparison"], limit, names[figure])


def parse_conditions(texts: Sequence[str]) -> list[Threshold]:
    """Return conditions that end a run early; Refusal for a figure that no run has while it goes."""
    return [parse(text, ABORT_ON, LIVE_FIGURES) for text in texts]


def _figure(found: re.Match[str], names: Mapping[str, str]) -> str:
    """Return the figure's name in the table; ValueError says which there are."""
    if (name := found["name"]) is not None:
        if name not in names:
            quantiles = [f"p99({subject})" for subject in _subjects(names)]
            raise ValueError(f"no figure {name}: {_allowed(name, [*names, *quantiles])}")
        return str(name)
    quantile, subject = found["quantile"], found["subject"]
    stems = _subjects(names)
    if subject not in stems:
        raise ValueError(f"nothing timed is called {subject}: {_allowed(subject, list(stems))}")
    full = f"{stems[subject]}_{quantile}_ms"
    if full not in names:
        having = [q for q in QUANTILES if f"{stems[subject]}_{q}_ms" in names]
        raise ValueError(f"no {quantile} of {subject}: allowed are {', '.join(having)}")
    return full


def _allowed(word: str, names: Sequence[str]) -> str:
    """Return in words which names there are: all of a few, of more the three that are nearest to a word."""
    if len(names) <= MOST_LISTED:
        return f"allowed are {', '.join(names)}"
    nearest = get_close_matches(word, names, n=3, cutoff=0.0)
    return f"nearest are {', '.join(nearest)}; all are in docs/results.md"


def _subjects(names: Iterable[str]) -> dict[str, str]:
    """Return what has quantiles, by the names a threshold may use: `end_to_end` is short for `end_to_end_latency`."""
    stems = [found[1] for name in names if (found := _TIMED.fullmatch(name))]
    return {short: stem for stem in stems for short in (stem.removesuffix("_latency"), stem)}


def _limit(number: str, unit: str, of: str, figure: str) -> float:
    """Return the value in the figure's unit; ValueError for another kind of unit, or a value no figure can have."""
    units = _UNITS[of]
    if unit not in units:
        allowed = ", ".join(one or "none" for one in units)
        raise ValueError(f"{f'unit {unit}' if unit else 'no unit'}: allowed here: {allowed}")
    if not math.isfinite(float(number)):
        raise ValueError("the value is too large")
    limit = float(Decimal(number) * units[unit])
    if not math.isfinite(limit):
        raise ValueError("the value is too large")
    if of == "ratio" and not 0 <= limit <= 1:
        raise ValueError("a ratio is between 0 and 1 (100%)")
    if limit < 0 and figure not in _BELOW_0:
        raise ValueError(f"{figure} is never below 0")
    return limit


def judge(thresholds: Iterable[Threshold], metrics: Mapping[str, Any]) -> list[Judged]:
    """Return every threshold beside the run's figure; a figure that is missing or null was not measured."""
    return [threshold.judge(metrics.get(threshold.figure)) for threshold in thresholds]


def all_met(judged: Iterable[Judged]) -> bool:
    """Say whether each was met; what was not measured was not."""
    return all(one.verdict == "met" for one in judged)


def write_junit(
    path: Path,
    suite: str,
    judged: Sequence[Judged],
    *,
    time_s: float,
    validity: Mapping[str, Any] | None = None,
) -> None:
    """Write the thresholds as one suite of JUnit XML, a test case each.

    Missed is a failure, not measured an error. The first case is the run's validity: whoever reads this file alone must
    not take the figures of an invalid run for good.

    Args:
        path: of the file, which is written anew.
        suite: the run's name.
        judged: the thresholds.
        time_s: how long the run took, which is the time of each case: all of them judge the same run.
        validity: `metrics["validity"]`; None: the run came to no figures.
    """
    root = ET.Element("testsuites")
    failures = sum(one.verdict == "missed" for one in judged) + ((validity or {}).get("verdict") == "invalid")
    errors = sum(one.verdict == "not measured" for one in judged) + (validity is None)
    said = {"tests": str(len(judged) + 1), "failures": str(failures), "errors": str(errors)}
    said["time"] = f"{time_s:.3f}"
    root.attrib.update(said)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    parent = ET.SubElement(root, "testsuite", {"name": suite, "timestamp": stamp, **said})
    case = {"classname": suite, "time": f"{time_s:.3f}"}
    first = ET.SubElement(parent, "testcase", {"name": "validity", **case})
    if validity is None:
        ET.SubElement(first, "error", {"message": "the run came to no figures"})
    elif validity["verdict"] == "invalid":
        words = "; ".join(cause["words"] for cause in validity["causes"])
        ET.SubElement(first, "failure", {"message": words})
    for one in judged:
        element = ET.SubElement(parent, "testcase", {"name": one.threshold.text, **case})
        if one.verdict != "met":
            kind = "failure" if one.verdict == "missed" else "error"
            ET.SubElement(element, kind, {"message": one.words})
    ET.indent(root)
    path.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")
