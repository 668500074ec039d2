"""When a run is valid, degraded or invalid, from the figures alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.audit import certificate as audited
from ivsim.runs.validity import Cause, judge, sender_lag_p99_ms

LATE = {
    "parameter": "change each second",
    "direction": "both",
    "verdict": "off",
    "achieved": "at most 183 ms late",
}
OFF = {"verdict": "off", "checks": [{"parameter": "delay", "direction": "uplink", "verdict": "off"}]}


def late(by_ms: float):
    return {"verdict": "off", "checks": [LATE | {"achieved_value": by_ms}]}


def of(lag_ms: float | None = 0.2, drops: int | None = 0, **metrics):
    return judge(metrics, sender_lag_p99_ms=lag_ms, capture_drops=drops)


def test_a_run_without_a_finding_is_valid():
    found = of(
        certificate={"verdict": "unproven", "checks": []}, live={"verdict": "agree"}, clock_drift_ms=0.3
    )
    assert (found.verdict, found.causes) == ("valid", ())


@pytest.mark.parametrize(
    ("found", "verdict", "name"),
    [
        (of(partial=True, partial_reason="gateway died"), "invalid", "partial_ledger"),
        (of(unknown=1, due=40), "invalid", "fate_unknown"),
        (of(certificate=OFF), "invalid", "certificate_off"),
        (of(certificate=late(183.0)), "degraded", "link_changes_late"),
        (of(certificate=late(1_200.0)), "invalid", "certificate_off"),
        (of(certificate=late(3.0)), "invalid", "certificate_off"),  # punctual until the replay broke
        (of(live={"verdict": "differ"}), "degraded", "live_figures_differ"),
        (of(live={"verdict": "not read to its end"}), "degraded", "live_figures_differ"),
        (of(lag_ms=51.0), "degraded", "generator_limited"),
        (of(lag_ms=4_000.0), "invalid", "generator_limited"),
        (of(clock_drift_ms=-1.2), "degraded", "clock_moved"),
        (of(drops=3), "invalid", "capture_dropped"),
    ],
)
def test_each_finding_has_its_severity(found, verdict, name):
    assert (found.verdict, [cause.name for cause in found.causes]) == (verdict, [name])


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (of(certificate=late(183.04)), "the latest change of the link came 183.0 ms late (limit 100 ms)"),
        (of(lag_ms=51.04), "the sender itself was late: emission lag p99 51.0 ms (limit 50 ms)"),
        (of(lag_ms=4_000.0), "emission lag p99 4,000.0 ms (limit 50 ms)"),
        (of(clock_drift_ms=-1.2), "moved -1.200 ms against the monotonic clock (limit 1 ms)"),
        (of(agents=[{"address": "a:1", "clock_uncertainty_ms": 1.7}]), "within 1.700 ms alone (limit 1 ms)"),
    ],
)
def test_a_cause_with_a_limit_says_value_and_limit(found, says):
    assert says in found.words


def test_the_worst_cause_decides_and_comes_first():
    found = of(clock_drift_ms=2.0, certificate=OFF)
    assert found.verdict == "invalid"
    assert found.words.startswith("the link was off in: delay uplink; ")

    assert len(found.as_dict()["causes"]) == 2


def test_the_wait_for_the_protocol_is_not_the_senders(tmp_path: Path):
    """CoAP sends one message at a time: what waits for an answer is late, and the sender is not."""
    path = tmp_path / "ledger.parquet"
    rows = {
        "emission_lag_ns": [200_000] * 99 + [900_000, 1_500_000_000, None],
        "buffered": [False] * 100 + [True, False],
    }
    pq.write_table(pa.table(rows), path)
    assert sender_lag_p99_ms(path) == pytest.approx(0.2)
    pq.write_table(pa.table(rows).slice(100), path)
    assert sender_lag_p99_ms(path) is None


def test_a_sender_that_died_beside_others_degrades_the_run_and_is_named():
    found = judge(
        {}, sender_lag_p99_ms=None, capture_drops=0, gateway_drops=0, dead_senders=["sender-1 was killed"]
    )
    assert (found.verdict, [cause.name for cause in found.causes]) == ("degraded", ["sender_died"])
    assert found.words.startswith("sender-1 was killed: ")


def test_an_agent_that_was_lost_and_a_clock_that_is_not_known_well_degrade_the_run():
    agents = [
        {"address": "a:1", "clock_uncertainty_ms": 0.2},
        {"address": "b:1", "clock_uncertainty_ms": 1.7},
        {"address": "c:1", "clock_uncertainty_ms": None},
    ]
    found = judge(
        {"agents": agents},
        sender_lag_p99_ms=None,
        capture_drops=None,
        lost_senders=["sender-1 on agent b:1 is lost"],
    )
    assert found.verdict == "degraded"
    names = [cause.name for cause in found.causes]
    assert names == ["clocks_apart", "clocks_apart", "agent_lost"]
    assert "times of agent b:1 are by this clock to within 1.700 ms alone" in found.words
    assert "how far the clock of agent c:1 is ahead is unknown" in found.words
    assert found.words.endswith("is unsent, with the reason agent_lost")
    assert audited.validity({}, None, None, lost_senders=1, agents=agents) == ("degraded", names)


@pytest.mark.parametrize(("drops", "verdict"), [(None, "valid"), (0, "valid"), (3, "degraded")])
def test_a_socket_that_overflowed_is_said(drops: int | None, verdict: str) -> None:
    """They counted as lost at the link, and nothing said that the gateway had lost them."""
    found = judge({}, sender_lag_p99_ms=None, capture_drops=0, gateway_drops=drops)
    assert found.verdict == verdict
    assert [cause.name for cause in found.causes] == ["gateway_dropped"] * (verdict == "degraded")
    assert audited.validity({}, None, 0, gateway_drops=drops) == (verdict, [one.name for one in found.causes])


@pytest.mark.parametrize(("drops", "verdict"), [(0, "valid"), (3, "degraded")])
def test_datagrams_that_the_system_did_not_take_from_vehicles_are_said(drops: int, verdict: str) -> None:
    found = judge({}, sender_lag_p99_ms=None, capture_drops=0, vehicle_drops=drops)
    assert found.verdict == verdict
    assert [cause.name for cause in found.causes] == ["vehicle_dropped"] * (verdict == "degraded")
    assert audited.validity({}, None, 0, vehicle_drops=drops) == (verdict, [one.name for one in found.causes])


def test_a_gateway_that_its_broker_refused_is_named() -> None:
    line = "gateway-1 was refused 7 times: MQTT broker 127.0.0.1:1883 refuses: not authorized"
    found = judge({}, sender_lag_p99_ms=None, capture_drops=0, refused_gateways=[line])
    assert (found.verdict, found.words) == ("degraded", line)
    assert audited.validity({}, None, 0, refused_gateways=1) == ("degraded", ["gateway_refused"])


def test_a_query_that_was_opened_again_degrades_the_run() -> None:
    line = "Spark's query died and was opened again in 2.1 s: query twin: ExecutorLostFailure"
    found = judge({}, sender_lag_p99_ms=None, capture_drops=0, twin_reopened=[line])
    assert (found.verdict, found.causes) == ("degraded", (Cause("twin_reopened", "degraded", line),))
    assert audited.validity({}, None, 0, twin_reopened=1) == ("degraded", ["twin_reopened"])
