"""A study's report groups what the certificates of its runs say by parameter, whatever the number of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ivsim.study.cells import DONE, FAILED, Cell, Kept, Task
from ivsim.study.engines.whole_run.link_checks import sections
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH


def certificate(probe_bytes: int, **verdicts: str) -> dict[str, Any]:
    """Return a certificate whose uplink has these verdicts."""
    checks = [
        {"direction": "uplink", "parameter": parameter, "verdict": verdict}
        for parameter, verdict in verdicts.items()
    ]
    worst = min(verdicts.values(), key=["off", "unproven", "pass"].index)
    return {
        "verdict": worst,
        "statement": "",
        "checks": checks,
        "probe_bytes_uplink": probe_bytes,
        "probe_bytes_downlink": probe_bytes - 100,
    }


def result(name: str, *certificates: dict[str, Any] | None, state: str = DONE) -> CellResult:
    cell = Cell(name, "", {}, None)
    figures: list[dict[str, Any]] = [{} if one is None else {"certificate": one} for one in certificates]
    kept = [Kept(Task(cell, k), state, None, one, Path()) for k, one in enumerate(figures, 1)]
    return CellResult(cell, kept)


def lines(*results: CellResult) -> list[str]:
    (section,) = sections(results)
    return section.splitlines()


def test_runs_are_counted_by_parameter_and_verdict():
    said = lines(
        result("a", *(certificate(1000 + k, loss="pass", rate="unproven") for k in range(8))),
        result("b", certificate(2000, loss="off", rate="pass"), certificate(3000, loss="pass", rate="pass")),
        result("c", certificate(9000, loss="off"), state=FAILED),
    )
    assert "Certificates of 10 runs: `off` 1, `pass` 1, `unproven` 8." in said
    assert "| uplink | loss | 10 | 9 | 1 | 0 | b |" in said
    assert f"| uplink | rate | 10 | 2 | 0 | 8 | {DASH} |" in said
    assert said[-1] == (
        "Probes cost 1,000 to 3,000 B up and 900 to 2,900 B down a run (IP), taken out of the overhead."
    )


def test_a_link_of_which_nothing_is_checked_says_so_once():
    direct = {
        "verdict": "unproven",
        "statement": "The direct link emulates nothing.",
        "checks": [],
        "probe_bytes_uplink": 0,
        "probe_bytes_downlink": 0,
    }
    said = lines(result("a", direct, direct), result("b", direct))
    assert said[2:] == [
        "Certificates of 3 runs: `unproven` 3.",
        "",
        "The direct link emulates nothing. (3 runs)",
    ]


def test_runs_without_a_link_have_no_section():
    assert sections([result("a", None)]) == []
