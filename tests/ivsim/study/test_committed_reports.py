"""The reports in studies/ hold to the rules: no time, size, count or ratio has an interval that reaches below 0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[3] / "studies"
BELOW_ZERO = re.compile(r"[\d.,]+ \[-[\d.,]+, [^\]]+\]")


def results_of(report: str) -> str:
    """Return the tables of estimates: differences, which may be negative, stand elsewhere, and with their signs."""
    found = re.search(r"^## Results\n(.*?)(?=^## )", report, re.DOTALL | re.MULTILINE)
    assert found, "no section Results"
    return found[1]


@pytest.mark.parametrize("name", [path.parent.name for path in sorted(STUDIES.glob("*/report.md"))])
def test_no_interval_of_what_is_positive_reaches_below_zero(name: str) -> None:
    results = results_of((STUDIES / name / "report.md").read_text())
    assert results.count(" [") > 10
    assert BELOW_ZERO.findall(results) == []


def test_an_impossible_interval_is_seen() -> None:
    head = "## Results\n| tunnel | 10.8 [{}, 26.8] |\n\n## Figures\n"
    assert BELOW_ZERO.findall(results_of(head.format("-5.17"))) == ["10.8 [-5.17, 26.8]"]
    assert BELOW_ZERO.findall(results_of(head.format("5.17"))) == []
