"""Service levels: which cells meet them, and the same as JUnit XML for CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from ivsim.study.model import Study, holds
from ivsim.study.summary import CellResult, short


class Judged(NamedTuple):
    """One service level on one cell; `problem` is None when it is met."""

    cell: str
    level: str
    problem: str | None


def judge(study: Study, results: Sequence[CellResult]) -> list[Judged]:
    """Judge every level on every cell; a cell without the figure, or that failed, meets none."""
    found = []
    for result in results:
        for metric, level in study.service_levels.items():
            value = result.interval(metric).estimate
            problem = None
            if result.reasons:
                problem = f"failed: {result.reasons[0]}"
            elif not result.done:
                problem = "not run"
            elif not holds(level, value):
                problem = f"{metric} is {'undefined' if value is None else short(value)}, not {level}"
            found.append(Judged(result.cell.name, f"{metric} {level}", problem))
    return found


def junit(name: str, results: Sequence[CellResult], judged: Sequence[Judged]) -> str:
    """Return JUnit XML: one test case per cell that was to run, one per service level of it."""
    failed = sum(bool(result.reasons) for result in results)
    missed = sum(one.problem is not None for one in judged)
    root = ET.Element(
        "testsuite",
        name=f"ivsim study {name}",
        tests=str(len(results) + len(judged)),
        errors=str(failed),
        failures=str(missed),
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
            ET.SubElement(case, "failure", message=one.problem)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
