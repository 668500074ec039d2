"""How batches were chosen, as a run's page tells it: from the lines that a real controller writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateways.batching.batcher import BatchSetting
from gateways.batching.controller import Controller, ControllerSettings
from gateways.batching.decision_log import DecisionLog
from gateways.batching.observation import LinkState, Observation
from gateways.batching.rules import Bounds
from ivsim.options import RunOptions
from ivsim.report.charts import chosen_over_time
from ivsim.report.decisions import HEADS, decision_rows, read_decisions
from ivsim.report.page import write_page

START_NS = 1_800_000_000_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A result whose gateway 0 saw nothing, a good link, and one that takes 600 ms; it was killed as it wrote."""
    bounds = Bounds(BatchSetting(10, 100.0), 250)
    controller = Controller(ControllerSettings("timely", 1_000.0, 10.0, bounds, 2))
    log = DecisionLog(tmp_path / "decisions-0.jsonl")
    seen = [Observation(0.0)]
    for request_ms, late_ratio in ((30.0, 0.0), (600.0, 0.25)):
        answers_ms = tuple(request_ms + number / 10 for number in range(50))
        link = LinkState(request_ms, 555.0, 150.0, request_ms - 2, 0.0, 1_448, "cubic")
        seen.append(Observation(300.0, answers_ms, late_ratio, link))
    for number, observation in enumerate(seen, 1):
        log.append(controller.decide(observation, 10.0 * number), START_NS + number * 10_000_000_000)
    log.close()
    with (tmp_path / "decisions-0.jsonl").open("a") as file:
        file.write('{"decided_at_ns": 18')
    return tmp_path


def test_rows_count_decisions_changes_and_what_was_predicted(directory: Path) -> None:
    decisions = read_decisions(directory)
    assert list(decisions) == ["0"]
    assert len(decisions["0"]) == 3
    (row,) = decision_rows(decisions)
    named = dict(zip(HEADS, row, strict=True))
    assert (named["gateway"], named["decisions"], named["changes"]) == ("0", "3", "1")
    assert named["by rule"] == "blind 1, kept 1, largest 1"
    assert named["predictions that can be judged"] == "1"
    # Nothing was to be late on the good link, and a quarter was in the period in which it was none.
    assert float(named["largest"]) == pytest.approx(0.25, abs=0.001)


def test_nothing_to_judge_is_a_dash_and_no_gateway_no_table(tmp_path: Path) -> None:
    assert read_decisions(tmp_path) == {}
    (tmp_path / "decisions-1.jsonl").write_text('{"decided_at_ns"')
    assert read_decisions(tmp_path) == {}
    one: dict[str, Any] = dict.fromkeys(
        ("messages", "wait_ms", "messages_before", "wait_ms_before"), 1
    ) | dict.fromkeys(("observed_late_ratio", "expected_late_ratio"))
    (row,) = decision_rows({"1": [one | {"rule": "blind"}]})
    assert row == ["1", "1", "0", "blind 1", "0", "\N{EN DASH}", "\N{EN DASH}"]


def test_the_figure_has_a_curve_for_the_setting_and_for_what_was_known(directory: Path) -> None:
    drawn = chosen_over_time(read_decisions(directory)["0"], START_NS).svg()
    for colour in ("#0072b2", "#e69f00", "#666666", "#009e73"):
        assert re.search(f"stroke: {colour}", drawn), colour


def test_the_page_tells_of_policy_limit_and_decisions(directory: Path) -> None:
    options = RunOptions(batching="timely", batch_limit_ms=1_000.0).model_dump(mode="json")
    manifest = {"run": "r1", "options": options, "link": {"name": "uml"}, "start_at_ns": START_NS}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    (directory / "metrics.json").write_text("{}")
    page = write_page(directory).read_text()
    assert "How batches were chosen" in page
    assert "By the policy timely for a limit of 1000 ms" in page
    assert "blind 1, kept 1, largest 1" in page
    assert "How gateway 0 chose its batches" in page
