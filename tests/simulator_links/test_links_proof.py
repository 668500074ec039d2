"""Intervals, verdicts, certificate and replay rows: pure, with a link that only remembers."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from simulator.links import Condition, LinkError, judging
from simulator.links.base import LinkCounter
from simulator.links.certificate import certificate
from simulator.links.privileges import missing_capabilities
from simulator.links.prober import probed_vehicles
from simulator.links.probes import Flow
from simulator.links.replay import LinkReplay, Second
from simulator.links.verify import Step, representative
from simulator.links.verify_fleet import _fleet_checks


@given(st.integers(1, 5000), st.floats(0, 1))
def test_loss_interval_is_clopper_pearson(sent, share):
    lost = round(sent * share)
    expected = binomtest(lost, sent).proportion_ci(confidence_level=0.999, method="exact")
    assert judging.loss_interval(lost, sent) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_quantile_is_nearest_rank():
    assert judging.quantile([4, 1, 3, 2], 0.5) == 2
    assert judging.quantile([4, 1, 3, 2], 0.99) == 4


@pytest.mark.parametrize(
    ("delays", "verdict"),
    [
        ([35.0 + k / 100 for k in range(100)], "pass"),
        ([37.0] * 100, "off"),
        ([34.0] * 3 + [35.0] * 97, "off"),
        ([35.0] * 4, "unproven"),
    ],
)
def test_delay_is_judged_by_its_median_and_by_early_packets(delays, verdict):
    assert judging.check_delay("uplink", 35.0, delays, 1.0).verdict == verdict


def test_representative_seconds_have_the_extremes_and_an_outage():
    series = [(Condition(rate, 10.0), Condition()) for rate in (5e6, 0.0, 1e6, 9e6, 2e5, 3e6, 0.0)]
    steps = representative("t", series, 4)
    assert [step.uplink.rate_bps for step in steps] == [0.0, 2e5, 3e6, 9e6]
    assert steps[1] == Step("t second 4", *series[4])


class Remembering:
    """A link that keeps what it was told and counts one packet per update."""

    name = "remembering"

    def __init__(self, fail_at=None):
        self.updates, self.fail_at = [], fail_at

    def update(self, conditions):
        if len(self.updates) == self.fail_at:
            raise LinkError("broken")
        self.updates.append(conditions)

    def counters(self):
        n = len(self.updates)
        return [LinkCounter(1, "uplink", 100 * n, n, 0, 0, 0, 0)]


def schedule(second):
    return {1: (Condition(1000.0 + second, 10.0, 0.1), Condition(None, 20.0))}


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_replay_sets_the_first_second_before_the_start():
    link = Remembering()
    with LinkReplay(link, schedule, time.time_ns() + 3_600_000_000_000):
        assert link.updates == [schedule(0)]
    assert link.updates == [schedule(0)]


def test_replay_sets_each_second_after_the_start():
    link = Remembering()
    with LinkReplay(link, schedule, time.time_ns()) as replay:
        wait_until(lambda: len(link.updates) >= 3)
    # On a machine that pauses here, a second more may have begun.
    assert link.updates[:3] == [schedule(0), schedule(0), schedule(1)]
    assert [step.second for step in replay.steps] == list(range(-1, len(link.updates) - 1))
    assert all(step.applied_at_ns >= step.due_at_ns for step in replay.steps)
    rows = replay.rows()[:4]
    assert [(row["second"], row["direction"]) for row in rows] == [
        (0, "uplink"), (0, "downlink"), (1, "uplink"), (1, "downlink"),
    ]  # fmt: skip
    assert rows[2]["asked_rate_bps"] == 1001.0
    assert [row["qdisc_packets"] for row in rows] == [1, None, 1, None]
    assert replay.properties()["failure"] is None


def test_a_broken_link_ends_the_replay_and_is_told():
    with LinkReplay(Remembering(fail_at=1), schedule, time.time_ns()) as replay:
        wait_until(lambda: replay.failure is not None)
    assert replay.properties()["failure"] == "broken"


def rows(**changed):
    made = []
    for second in range(40):
        for direction in ("uplink", "downlink"):
            row = {
                "second": second, "vehicle_id": "YV2RT40A8KB000001", "direction": direction,
                "asked_rate_bps": 1e6, "asked_delay_ms": 35.0, "asked_loss_ratio": 0.0,
                "qdisc_bytes": 125_000, "qdisc_packets": 100, "drops": 0, "queue_drops": 0,
                "backlog_bytes": 60_000, "probe_sent": 1, "probe_received": 1,
                "probe_delay_ms": 35.6, "probe_bytes": 48,
            }  # fmt: skip
            made.append(row | changed)
    return made


REPLAY = {"applied_late_max_ms": 5.0, "failure": None}


def test_certificate_passes_when_all_agrees():
    found = certificate("uml", rows(), REPLAY)
    assert {check["verdict"] for check in found["checks"]} == {"pass"}
    assert found["verdict"] == "pass"
    assert found["probe_bytes_uplink"] == 40 * 48


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"probe_delay_ms": 40.0}, "delay"),
        ({"probe_delay_ms": 30.0}, "delay"),
        ({"drops": 10}, "loss, kernel"),
        ({"probe_received": 0, "probe_delay_ms": None}, "loss, probes"),
        ({"qdisc_bytes": 160_000}, "rate, never above"),
        ({"qdisc_bytes": 100_000}, "rate, saturated"),
    ],
)
def test_certificate_names_what_was_off(changed, parameter):
    found = certificate("uml", rows(**changed), REPLAY)
    assert found["verdict"] == "off"
    assert f"{parameter} uplink" in found["statement"]


@pytest.mark.parametrize(("bytes_", "verdict"), [(180_000, "pass"), (200_000, "off")])
def test_a_delay_that_falls_lets_a_second_carry_what_was_on_its_way(bytes_, verdict):
    made = [
        row | ({"asked_delay_ms": 435.0, "probe_delay_ms": 435.6} if row["second"] < 20 else {})
        for row in rows()
    ]
    made = [row | ({"qdisc_bytes": bytes_} if row["second"] == 20 else {}) for row in made]
    checks = certificate("uml", made, REPLAY)["checks"]
    assert {c["verdict"] for c in checks if c["parameter"] == "rate, never above"} == {verdict}


def test_a_step_that_took_longer_may_carry_more():
    made = [row | {"counted_at_ns": row["second"] * 1_200_000_000, "qdisc_bytes": 150_000} for row in rows()]
    checks = certificate("uml", made, REPLAY)["checks"]
    assert {c["verdict"] for c in checks if c["parameter"] == "rate, never above"} == {"pass"}


def test_certificate_tells_a_late_replay():
    assert certificate("uml", rows(), REPLAY | {"applied_late_max_ms": 400.0})["verdict"] == "off"


def test_nothing_played_and_nothing_sent_prove_nothing():
    found = certificate("netem", [], REPLAY | {"steps": 0})
    assert found["verdict"] == "unproven"
    assert certificate("netem", [], REPLAY)["verdict"] == "unproven"
    uplink_only = [row for row in rows() if row["direction"] == "uplink"]
    assert certificate("netem", uplink_only, REPLAY)["verdict"] == "unproven"


def test_a_silent_vehicle_is_off():
    flows = [Flow(k, d, 100, 0.5, 5) for k in range(1, 1_001) for d in ("uplink", "downlink")]
    for flow in flows:
        if flow.vehicle > 3:
            flow.sent_at_ns = [0] * 5
            flow.received_at_ns = dict.fromkeys(range(5), 20000000)
    checks = list(_fleet_checks(flows, dict.fromkeys(range(1, 1_001), (20.0, 20.0)), 0.02))
    assert [c.verdict for c in checks if "delay" in c.parameter] == ["off", "off"]
    silent = [Flow(1, d, 100, 0.5, 5) for d in ("uplink", "downlink")]
    checks = list(_fleet_checks(silent, {1: (20.0, 20.0)}, 0.02))
    assert [c.verdict for c in checks if "delay" in c.parameter] == ["off", "off"]


def test_the_control_proves_nothing():
    assert certificate("direct", rows(), REPLAY)["verdict"] == "unproven"


def test_large_fleets_are_probed_by_a_spread_sample():
    assert probed_vehicles(3) == [1, 2, 3]
    sample = probed_vehicles(1000)
    assert (len(sample), sample[0], sample[-1]) == (32, 1, 1000)


def test_missing_capabilities_are_named():
    assert missing_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n") == []
    assert missing_capabilities("CapEff:\t0000000000000000\n") == [
        "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN",
    ]  # fmt: skip


def test_a_step_keeps_what_was_asked():
    step = Second(0, schedule(0), 1, 2, 3)
    assert step.counters == []
