"""Thresholds: what may be written, what is refused, and what a run's figures make of them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim import thresholds
from ledger.metrics import METRICS
from schemas.errors import Refusal


@pytest.mark.parametrize(
    ("text", "figure", "comparison", "limit"),
    [
        ("p99(end_to_end) < 1s", "end_to_end_latency_p99_ms", "<", 1000.0),
        ("p99(end_to_end_latency)<=250 ms", "end_to_end_latency_p99_ms", "<=", 250.0),
        (" max( processing_delay ) < 1.5min ", "processing_delay_max_ms", "<", 90_000.0),
        ("end_to_end_latency_p50_ms < 20us", "end_to_end_latency_p50_ms", "<", 0.02),
        ("end_to_end_latency_p99_ms<500", "end_to_end_latency_p99_ms", "<", 500.0),
        ("window_to_s > 9", "window_to_s", ">", 9.0),
        ("goodput_bps > 1", "goodput_bps", ">", 1.0),
        ("p99(emission_lag) < 2e1ms", "emission_lag_p99_ms", "<", 20.0),
        ("delivery_ratio == 1", "delivery_ratio", "==", 1.0),
        ("delivery_ratio >= 99.9%", "delivery_ratio", ">=", 0.999),
        ("lost_at_broker != 3", "lost_at_broker", "!=", 3.0),
        ("wire_bytes_uplink < 2MB", "wire_bytes_uplink", "<", 2e6),
        ("goodput_bps > 1 Mbit/s", "goodput_bps", ">", 1e6),
        ("clock_drift_ms > -1ms", "clock_drift_ms", ">", -1.0),
    ],
)
def test_what_a_threshold_says(text, figure, comparison, limit) -> None:
    found = thresholds.parse(text)
    assert (found.figure, found.comparison, found.limit) == (figure, comparison, pytest.approx(limit))
    assert found.text == text.strip()
    assert found.unit == METRICS[figure].unit


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "write a figure"),
        ("delivery_ratio", "write a figure"),
        ("delivery_ratio = 1", "write a figure"),
        ("delivery_ratio == one", "write a figure"),
        ("delivery_ratio == 1 or lost == 0", "write a figure"),
        (
            "delivery == 1",
            "no figure delivery: nearest are delivered, delivery_ratio, duplicates; all are in docs",
        ),
        ("p99(latency) < 1s", "nothing timed is called latency: allowed are one_way_delay"),
        ("p98(end_to_end) < 1s", "no p98 of end_to_end: allowed are p50, p95, p99, max"),
        ("p50(emission_lag) < 1s", "no p50 of emission_lag: allowed are p99"),
        ("p99(end_to_end) < 1000", "no unit: allowed here: ns, us, ms, s, min"),
        ("p99(end_to_end) < 1kB", "unit kB: allowed here: ns, us, ms, s, min"),
        ("lost < 1s", "unit s: allowed here: none"),
        ("delivery_ratio == 100", "a ratio is between 0 and 1"),
        ("p99(end_to_end) < 1e999s", "too large"),
        ("p99(end_to_end) < -1s", "end_to_end_latency_p99_ms is never below 0"),
        ("lost >= -1", "lost is never below 0"),
    ],
)
def test_what_is_refused_names_what_is_wrong(text, names) -> None:
    with pytest.raises(Refusal, match=r"^--threshold ") as refusal:
        thresholds.parse(text)
    assert names in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.text(max_size=200))
def test_any_other_text_is_refused_and_nothing_else(text) -> None:
    try:
        found = thresholds.parse(text)
    except Refusal as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017 - the other branch is the parse
    else:
        assert found.figure in METRICS


@given(st.sampled_from([m.name for m in METRICS.values() if m.unit == "1"]), st.integers(0, 10**9))
def test_every_count_can_be_asked_for(name, number) -> None:
    found = thresholds.parse(f"{name} == {number}")
    assert found.judge(number).verdict == "met"
    assert found.judge(number + 1).verdict == "missed"


@pytest.mark.parametrize("places", [0, 1, 2, 3])
def test_a_share_in_per_cent_is_the_share_that_is_measured(places: int) -> None:
    whole = 100 * 10**places
    for count in range(0, whole + 1, max(1, whole // 1_000)):
        limit = f"{count / 10**places:.{places}f}%"
        measured = count / whole
        for comparison in (">=", "<=", "=="):
            assert (
                thresholds.parse(f"delivery_ratio {comparison} {limit}").judge(measured).verdict == "met"
            ), limit
        assert thresholds.parse(f"delivery_ratio != {limit}").judge(measured).verdict == "missed"


def test_every_figure_has_units_to_write() -> None:
    for metric in METRICS.values():
        unit = "" if metric.unit in {"1", "ratio"} else metric.unit
        assert thresholds.parse(f"{metric.name} <= 1{unit}").figure == metric.name


def test_what_was_not_measured_is_not_met() -> None:
    asked = [thresholds.parse(text) for text in ("delivery_ratio == 1", "lost < 5", "duplicates == 0")]
    judged = thresholds.judge(asked, {"delivery_ratio": 1.0, "lost": 5, "duplicates": None})
    assert [one.verdict for one in judged] == ["met", "missed", "not measured"]
    assert [one.words for one in judged] == [
        "delivery_ratio == 1: met: 1",
        "lost < 5: missed: 5",
        "duplicates == 0: not measured",
    ]
    assert thresholds.all_met(judged[:1])
    assert not thresholds.all_met([judged[0], judged[2]])


def test_the_junit_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    asked = [thresholds.parse(text) for text in ("p99(end_to_end) < 1s", "lost < 5", "duplicates == 0")]
    judged = thresholds.judge(asked, {"end_to_end_latency_p99_ms": 10.5, "lost": 5})
    validity = {"verdict": "invalid", "causes": [{"name": "x", "words": "the ledger is partial"}]}
    thresholds.write_junit(path, "run <1>", judged, time_s=12.5, validity=validity)
    (suite,) = ET.parse(path).getroot()
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "time")} == {
        "name": "run <1>",
        "tests": "4",
        "failures": "2",
        "errors": "1",
        "time": "12.500",
    }
    cases = {case.get("name"): [(child.tag, child.get("message")) for child in case] for case in suite}
    assert cases == {
        "validity": [("failure", "the ledger is partial")],
        "p99(end_to_end) < 1s": [],
        "lost < 5": [("failure", "lost < 5: missed: 5")],
        "duplicates == 0": [("error", "duplicates == 0: not measured")],
    }
    assert {case.get("time") for case in suite} == {"12.500"}


def test_a_run_without_figures_is_an_error_in_the_junit_file(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    thresholds.write_junit(path, "run", [], time_s=1.0)
    (suite,) = ET.parse(path).getroot()
    assert suite.get("errors") == "1"
