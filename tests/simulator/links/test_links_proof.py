"""Intervals, verdicts, certificate and replay rows: pure, with a link that only remembers."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ivsim.runs.link_log import SCHEMA
from simulator.links import Condition, LinkError
from simulator.links.base import Applied
from simulator.links.base import wait_until as wait_until_s
from simulator.links.privileges import missing_capabilities
from simulator.links.proof import checks
from simulator.links.proof.certificate import certificate
from simulator.links.proof.prober import probed_vehicles
from simulator.links.proof.probes import Flow
from simulator.links.proof.verify import Step, representative
from simulator.links.proof.verify_fleet import fleet_checks
from simulator.links.replay import LinkReplay
from tests.simulator.links.row_by_row import LinkCounter, counts


@given(st.integers(1, 5000), st.floats(0, 1))
def test_loss_interval_is_clopper_pearson(sent, share):
    lost = round(sent * share)
    expected = binomtest(lost, sent).proportion_ci(confidence_level=0.999, method="exact")
    assert checks.loss_interval(lost, sent) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_quantile_is_nearest_rank():
    assert checks.quantile([4, 1, 3, 2], 0.5) == 2
    assert checks.quantile([4, 1, 3, 2], 0.99) == 4


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
    assert checks.check_delay("uplink", 35.0, delays, 1.0).verdict == verdict


def test_representative_seconds_have_the_extremes_and_an_outage():
    series = [(Condition(rate, 10.0), Condition()) for rate in (5e6, 0.0, 1e6, 9e6, 2e5, 3e6, 0.0)]
    steps = representative("t", series, 4)
    assert [step.uplink.rate_bps for step in steps] == [0.0, 2e5, 3e6, 9e6]
    assert steps[1] == Step("t second 4", *series[4])


class Remembering:
    """A link that keeps what it was told and counts one packet per update."""

    name = "remembering"

    def __init__(self, fail_at=None):
        self.updates, self.prepared, self.fail_at = [], [], fail_at

    def update(self, conditions):
        if len(self.updates) == self.fail_at:
            raise LinkError("broken")
        self.updates.append(conditions)

    def prepare(self, conditions, at_s, *, count=False):
        self.prepared.append((conditions, at_s, len(self.updates)))

        def apply():
            found, counted_s = self.counters() if count else None, time.monotonic()
            began_s = wait_until_s(at_s)
            self.update(conditions)
            return Applied(began_s, time.monotonic(), found, counted_s)

        return apply

    def counters(self):
        n = len(self.updates)
        return counts([LinkCounter(1, "uplink", 100 * n, n, 0, 0, 0, 0)])


def schedule(second):
    return {1: (Condition(1000.0 + second, 10.0, 0.1), Condition(None, 20.0))}


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_replay_sets_the_first_second_before_the_start(tmp_path):
    link = Remembering()
    with LinkReplay(link, schedule, time.time_ns() + 3_600_000_000_000, tmp_path / "steps"):
        assert link.updates == [schedule(0)]
    assert link.updates == [schedule(0)]


def test_replay_sets_each_second_after_the_start(tmp_path):
    link = Remembering()
    start_at_ns = time.time_ns()
    with LinkReplay(link, schedule, start_at_ns, tmp_path / "steps") as replay:
        wait_until(lambda: len(link.updates) >= 3)
    # On a machine that pauses here, a second more may have begun.
    assert link.updates[:3] == [schedule(0), schedule(0), schedule(1)]
    rows = [row for table in replay.rows() for row in table.to_pylist()]
    assert [row["second"] for row in rows[::2]] == list(range(len(link.updates) - 1))
    late_ms = [(row["applied_at_ns"] - start_at_ns) / 1e6 - row["second"] * 1e3 for row in rows]
    assert min(late_ms) >= 0
    assert replay.properties()["applied_late_max_ms"] == round(max(late_ms), 3)
    assert replay.properties()["update_max_ms"] == round(max(row["update_ms"] for row in rows), 3)
    assert replay.properties()["steps"] == len(rows) / 2
    rows = rows[:4]
    assert [(row["second"], row["direction"]) for row in rows] == [
        (0, "uplink"), (0, "downlink"), (1, "uplink"), (1, "downlink"),
    ]  # fmt: skip
    assert rows[2]["asked_rate_bps"] == 1001.0
    assert [row["qdisc_packets"] for row in rows] == [1, None, 1, None]
    assert replay.properties()["failure"] is None


def test_the_next_second_is_prepared_in_this_one(tmp_path):
    link = Remembering()
    start_at_ns = time.time_ns() + 300_000_000
    start_s = time.monotonic() + 0.3
    with LinkReplay(link, schedule, start_at_ns, tmp_path / "steps"):
        wait_until(lambda: len(link.prepared) >= 4)
    # Before the start, and each second once what is in force before it was sent, as it will be when its time has come.
    assert [(asked, sent) for asked, _, sent in link.prepared[:4]] == [
        (schedule(0), 0), (schedule(0), 1), (schedule(1), 2), (schedule(2), 3),
    ]  # fmt: skip
    due_s = [at_s for _, at_s, _ in link.prepared[1:4]]
    assert due_s == pytest.approx([start_s, start_s + 1, start_s + 2], abs=0.45)


def test_a_broken_link_ends_the_replay_and_is_told(tmp_path):
    with LinkReplay(Remembering(fail_at=1), schedule, time.time_ns(), tmp_path / "steps") as replay:
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
                "probe_delay_ms": 35.6 + 450, "probe_bytes": 48,
            }  # fmt: skip
            made.append(row | changed)
    return made


def as_columns(made):
    """Return rows as a table of link.parquet; null for what they do not have."""
    return pa.Table.from_pylist(made, schema=SCHEMA)


REPLAY = {"applied_late_max_ms": 5.0, "failure": None}


def quiet(**changed):
    """Return rows of a link that one vehicle hardly uses, by itself or `changed`."""
    calm = {"qdisc_bytes": 2_000, "qdisc_packets": 20, "backlog_bytes": 0, "probe_delay_ms": 36.0}
    return rows(**calm | changed)


def checks_of(made, parameter, replay=None):
    found = certificate("uml", [as_columns(made)], replay or REPLAY)
    return [check for check in found["checks"] if check["parameter"] == parameter]


def verdicts(made, parameter):
    return {check["verdict"] for check in checks_of(made, parameter)}


def test_a_saturated_run_proves_its_rate_and_a_quiet_one_its_delay():
    assert verdicts(rows(), "rate") == {"pass"}
    assert verdicts(rows(), "loss") == {"pass"}
    assert verdicts(quiet(), "delay") == {"pass"}
    found = certificate("uml", [as_columns(rows())], REPLAY)
    assert found["probe_bytes_uplink"] == 40 * 48


def test_what_nothing_came_near_is_unproven():
    """5 Mbit/s with no traffic near it is not "never above"; a queue hides the delay's median."""
    assert verdicts(quiet(asked_rate_bps=5e6), "rate") == {"unproven"}
    assert verdicts(rows(), "delay") == {"unproven"}
    found = certificate("uml", [as_columns(quiet(asked_rate_bps=5e6))], REPLAY)
    assert found["verdict"] == "unproven"
    assert "Too little traffic to prove: rate uplink, rate downlink." in found["statement"]
    assert all(check["power"] for check in found["checks"] if check["direction"] != "both")


@pytest.mark.parametrize(
    ("made", "parameter"),
    [
        (quiet(probe_delay_ms=41.0), "delay"),
        (quiet(probe_delay_ms=30.0), "delay"),
        (rows(drops=10), "loss"),
        (quiet(probe_received=0, probe_delay_ms=None), "loss"),
        (rows(qdisc_bytes=160_000), "rate"),
        (rows(qdisc_bytes=100_000), "rate"),
    ],
)
def test_certificate_names_what_was_off(made, parameter):
    found = certificate("uml", [as_columns(made)], REPLAY)
    assert found["verdict"] == "off"
    assert f"{parameter} uplink" in found["statement"]


def test_late_tails_are_off():
    """45 % of packets 2 s late leave the median where it was asked."""
    made = [row | ({"probe_delay_ms": 2_036.0} if row["second"] % 20 < 9 else {}) for row in quiet()]
    assert verdicts(made, "delay") == {"off"}


def test_traffic_through_an_outage_is_off():
    out = {
        "asked_rate_bps": 0.0,
        "qdisc_bytes": 500_000,
        "probe_sent": 0,
        "probe_received": 0,
        "probe_delay_ms": None,
    }
    made = [row | (out if 10 <= row["second"] < 30 else {}) for row in quiet()]
    assert verdicts(made, "outage") == {"off"}
    waiting = out | {"qdisc_bytes": 0, "backlog_bytes": 3_000}
    made = [row | (waiting if 10 <= row["second"] < 30 else {}) for row in quiet()]
    assert verdicts(made, "outage") == {"pass"}
    silent = waiting | {"backlog_bytes": 0}
    made = [row | (silent if 10 <= row["second"] < 30 else {}) for row in quiet()]
    assert verdicts(made, "outage") == {"unproven"}


@pytest.mark.parametrize(("delay_ms", "verdict"), [(4_500.0, "pass"), (36.0, "off")])
def test_a_probe_that_comes_out_of_an_outage_is_off(delay_ms, verdict):
    """Sent in the first of five seconds without a rate, it can come only once they are over."""
    out = {"asked_rate_bps": 0.0, "qdisc_bytes": 0, "probe_received": 0, "probe_delay_ms": None}
    came = {"probe_received": 1, "probe_delay_ms": delay_ms}
    made = [
        row | (out if 10 <= row["second"] < 15 else {}) | (came if row["second"] == 10 else {})
        for row in quiet()
    ]
    assert verdicts(made, "outage") == {verdict}


def test_no_drop_of_17_packets_does_not_prove_30_percent():
    made = quiet(asked_loss_ratio=0.3, qdisc_packets=None, drops=None, queue_drops=0)
    few = [row | ({"probe_sent": 0} if row["second"] >= 17 else {}) for row in made]
    assert verdicts(few, "loss") == {"unproven"}
    assert verdicts(made, "loss") == {"off"}


def test_eight_of_200_at_1_percent_is_chance():
    few = {"asked_loss_ratio": 0.01, "qdisc_packets": 5, "probe_sent": 0}
    made = [row | few | {"drops": int(row["second"] < 8)} for row in quiet()]
    assert verdicts(made, "loss") <= {"pass", "unproven"}


def test_a_correct_link_under_load_is_not_off():
    """30 kbit/s that a fleet saturates: 3,750 bytes a second in frames of 1,514, the run's own queue, probes in it."""
    made = []
    for second in range(60):
        base = rows()[0] | {
            "second": second, "asked_rate_bps": 30_000.0, "asked_delay_ms": 30.0, "qdisc_packets": 2 + second % 2,
            "qdisc_bytes": 1_514 * (2 + second % 2), "backlog_bytes": 40_000 if second else 15_000,
            "probe_delay_ms": 30.0 + 2_786.0 + 17.0,
        }  # fmt: skip
        late = {"probe_received": 0, "probe_delay_ms": None} if second > 46 else {}
        made += [base | late | {"direction": d} for d in ("uplink", "downlink")]
    found = certificate("uml", [as_columns(made)], REPLAY)
    assert found["verdict"] != "off", found["statement"]
    assert {check["verdict"] for check in found["checks"] if check["parameter"] == "rate"} == {"pass"}


def test_saturated_seconds_of_different_rates_are_judged_together():
    """1 and 2 Mbit/s in turn: what leaves in a second was let through 35 ms before, at the rates of that time."""

    def made(share):
        series = []
        for row in rows():
            rate = 2e6 if row["second"] % 2 else 1e6
            earlier = 1e6 if row["second"] % 2 else 2e6
            passed = (rate * 0.965 + earlier * 0.035) / 8 * share
            series.append(
                row | {"asked_rate_bps": rate, "qdisc_bytes": round(passed), "backlog_bytes": 200_000}
            )
        return series

    assert verdicts(made(1.0), "rate") == {"pass"}
    assert verdicts(made(0.9), "rate") == {"off"}


@pytest.mark.parametrize(("bytes_", "verdict"), [(175_000, "pass"), (200_000, "off")])
def test_a_delay_that_falls_lets_a_second_carry_what_was_on_its_way(bytes_, verdict):
    made = [row | ({"asked_delay_ms": 435.0} if row["second"] < 20 else {}) for row in rows()]
    made = [row | ({"qdisc_bytes": bytes_} if row["second"] == 20 else {}) for row in made]
    assert verdicts(made, "rate") == {verdict}


def test_a_step_that_took_longer_may_carry_more():
    made = [
        row | {"counted_at_ns": (row["second"] + 1) * 1_200_000_000, "applied_at_ns": row["second"] * 1_200_000_000 + 1,
               "qdisc_bytes": 150_000}
        for row in rows()
    ]  # fmt: skip
    assert verdicts(made, "rate") == {"pass"}


@pytest.mark.full
@given(st.data())
@settings(max_examples=30)
def test_a_right_link_is_off_by_chance_once_in_a_hundred_runs(data):
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    off = 0
    for _ in range(20):
        made = [
            row | {"asked_loss_ratio": 0.05, "qdisc_packets": 19 - int(n), "drops": int(n), "probe_received": int(p),
                   "probe_delay_ms": 36.0 if p else None}
            for row, n, p in zip(quiet(), rng.binomial(19, 0.05, 80), rng.random(80) > 0.05, strict=True)
        ]  # fmt: skip
        off += certificate("uml", [as_columns(made)], REPLAY)["verdict"] == "off"
    assert off <= 3  # binomial(20, 0.01) is above 3 once in 24,000


def test_certificate_tells_a_late_replay():
    assert (
        certificate("uml", [as_columns(quiet())], REPLAY | {"applied_late_max_ms": 400.0})["verdict"] == "off"
    )


def test_nothing_played_and_nothing_sent_prove_nothing():
    found = certificate("netem", [as_columns([])], REPLAY | {"steps": 0})
    assert found["verdict"] == "unproven"
    assert certificate("netem", [as_columns([])], REPLAY)["verdict"] == "unproven"
    uplink_only = [row for row in rows() if row["direction"] == "uplink"]
    assert certificate("netem", [as_columns(uplink_only)], REPLAY)["verdict"] == "unproven"


def test_a_silent_vehicle_is_off():
    flows = [Flow(k, d, 100, 0.5, 5) for k in range(1, 1_001) for d in ("uplink", "downlink")]
    for flow in flows:
        if flow.vehicle > 3:
            flow.sent_at_ns = [0] * 5
            flow.received_at_ns = dict.fromkeys(range(5), 20000000)
    checks = list(fleet_checks(flows, dict.fromkeys(range(1, 1_001), (20.0, 20.0)), 0.02))
    assert [c.verdict for c in checks if "delay" in c.parameter] == ["off", "off"]
    silent = [Flow(1, d, 100, 0.5, 5) for d in ("uplink", "downlink")]
    checks = list(fleet_checks(silent, {1: (20.0, 20.0)}, 0.02))
    assert [c.verdict for c in checks if "delay" in c.parameter] == ["off", "off"]


def test_the_control_proves_nothing():
    assert certificate("direct", [as_columns(rows())], REPLAY)["verdict"] == "unproven"


def test_large_fleets_are_probed_by_a_spread_sample():
    assert probed_vehicles(3) == [1, 2, 3]
    sample = probed_vehicles(1000)
    assert (len(sample), sample[0], sample[-1]) == (32, 1, 1000)


def test_missing_capabilities_are_named():
    assert missing_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n") == []
    assert missing_capabilities("CapEff:\t0000000000000000\n") == [
        "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN",
    ]  # fmt: skip
