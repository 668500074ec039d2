"""Service levels: which cells meet them by their intervals, and the same as JUnit XML for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple
from xml.etree import ElementTree as ET

from ivsim.study.clusters import MIN_REPETITIONS
from ivsim.study.model import Study, holds
from ivsim.study.results import CellResult
from ivsim.study.summary import short, written

Verdict = Literal["met", "not met", "undecided"]
MET: Final[Verdict] = "met"
NOT_MET: Final[Verdict] = "not met"
UNDECIDED: Final[Verdict] = "undecided"


class Judged(NamedTuple):
    """One service level on one cell; `problem` says why it is not met or undecided, None when it is met."""

    cell: str
    level: str
    verdict: Verdict
    problem: str | None


def judge(study: Study, results: Sequence[CellResult]) -> list[Judged]:
    """Judge every level on every cell by the 95 % interval of the figure.

    Met when the whole interval keeps the level, not met when none of it does, and undecided where the limit lies
    within, where there is no interval, and below MIN_REPETITIONS. A cell that failed, was not run, says itself
    that it is invalid, or has no such figure at all meets none.
    """
    return [
        Judged(result.cell.name, f"{metric} {level}", *_judged(result, metric, level))
        for result in results
        for metric, level in study.service_levels.items()
    ]


def _judged(result: CellResult, metric: str, level: str) -> tuple[Verdict, str | None]:
    if (none := _no_figure(result)) is not None:
        return NOT_MET, none
    if not result.valid:
        return UNDECIDED, f"all its repetitions are {result.validity}"
    result = result.sound
    found = result.interval(metric)
    if found.estimate is None:
        return NOT_MET, f"{metric} is undefined, not {level}"
    if not result.enough or found.low is None or found.high is None:
        few = f"too few repetitions: {len(result.done)} of at least {MIN_REPETITIONS}"
        why = "it has no interval" if result.enough else few
        return UNDECIDED, f"{metric} is {short(found.estimate)}, wanted {level}; {why}"
    kept = {holds(level, found.low), holds(level, found.high)}
    if len(kept) > 1:
        return UNDECIDED, f"{metric} is {written(found)}, wanted {level}: more repetitions may decide"
    return (MET, None) if kept == {True} else (NOT_MET, f"{metric} is {written(found)}, not {level}")


def _no_figure(result: CellResult) -> str | None:
    if result.reasons:
        return f"failed: {result.reasons[0]}"
    if not result.done:
        return "not run"
    return "its figures are invalid" if result.validity == "invalid" else None


def junit(name: str, results: Sequence[CellResult], judged: Sequence[Judged]) -> str:
    """Return JUnit XML: one test case per cell that was to run, one per service level of it."""
    failed = sum(bool(result.reasons) for result in results)
    missed = sum(one.verdict == NOT_MET for one in judged)
    open_ = sum(one.verdict == UNDECIDED for one in judged)
    root = ET.Element(
        "testsuite",
        name=f"ivsim study {name}",
        tests=str(len(results) + len(judged)),
        errors=str(failed),
        failures=str(missed),
        skipped=str(open_ + sum(not result.done and not result.reasons for result in results)),
    )
    for result in results:
        case = ET.SubElement(root, "testcase", classname=result.cell.name, name="runs")
        if result.reasons:
            ET.SubElement(case, "error", message="; ".join(result.reasons))
        elif not result.done:
            ET.SubElement(case, "skipped", message="not run")
    for one in judged:
        case = ET.SubElement(root, "testcase", classname=one.cell, name=one.level)
        if one.problem is not None:
            ET.SubElement(case, "failure" if one.verdict == NOT_MET else "skipped", message=one.problem)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
