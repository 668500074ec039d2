"""The saturating probe behind a run: which seconds it drives, what is measured again, and what the certificate makes of it."""

import pytest

from ivsim.audit import certificate as audited
from schemas.topics import vehicle_id
from simulator.links.base import Condition, GilbertElliott, LinkCounts
from simulator.links.proof import after_run
from simulator.links.proof.certificate import certificate
from simulator.links.proof.checks import Check
from simulator.links.proof.probes import Flow
from simulator.links.proof.verify import Proof, _judge_losses
from simulator.links.proof.verify_rate import judge_rate
from simulator.links.step_log import Asked
from tests.simulator.links.test_links_proof import REPLAY, as_columns, quiet


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """A slow link owes its last frame for two seconds; this one has none."""
    monkeypatch.setattr("simulator.links.proof.verify.time.sleep", lambda _s: None)


class Idle:
    """A link on which nothing waits."""

    name = "netem"

    def __init__(self):
        self.updates = []

    def update(self, conditions):
        self.updates.append(conditions)

    def counters(self):
        return LinkCounts.none()


def asked(*rates, vehicles=1):
    """Return what a replay asked for in which vehicle v has a rate of its own each second, each rate in its first second."""
    return [
        Asked(v, rates.index(rate), Condition(rate + v, 30.0), Condition(None, 30.0))
        for rate in dict.fromkeys(rates)
        for v in range(1, vehicles + 1)
    ]


def verdicts_in_turn(*rounds):
    """Return a `proving` whose nth call gives each step one check of the rate with the nth verdict."""
    calls = []

    def proving(_link, asked, seconds, _first):
        verdict = rounds[len(calls)]
        calls.append([step.uplink.rate_bps for step in asked])
        assert seconds == after_run.WHOLE.traffic_s
        check = Check("rate, UDP", "uplink", "1", verdict, "2 %", verdict, 1.0, 1.0)
        return [Proof(step, number, [check]) for number, step in enumerate(asked, 1)]

    return proving, calls


def prove(made, vehicles, *rounds):
    proving, calls = verdicts_in_turn(*rounds)
    depth = after_run.WHOLE._replace(proving=proving)
    return after_run.prove_after_run(Idle(), made, vehicles, depth=depth), calls


def test_the_slowest_and_the_fastest_second_are_among_five_distinct_ones():
    proven, calls = prove(asked(*range(1_000_000, 9_000_000, 1_000_000), vehicles=10), 10, "pass")
    assert len(calls) == 1
    assert len(calls[0]) == 5
    assert min(calls[0]) == 1_000_001
    assert max(calls[0]) == 8_000_010
    assert {one.vehicle_id for one in proven} >= {vehicle_id(1), vehicle_id(10)}
    assert all(one.second >= 0 for one in proven)


def test_one_vehicle_drives_three_seconds_one_after_another():
    proven, calls = prove(asked(3e6, 1e6, 2e6, 2e6), 1, "pass", "pass", "pass")
    assert calls == [[1e6 + 1], [2e6 + 1], [3e6 + 1]]
    assert [one.second for one in proven] == [1, 2, 0]


def test_a_constant_link_is_driven_once():
    _proven, calls = prove(asked(1e6, 1e6, 1e6), 30, "pass")
    assert calls == [[1e6 + 1]]


@pytest.mark.parametrize(("second", "said"), [("pass", "pass"), ("off", "off")])
def test_what_is_off_is_measured_again_and_the_second_measurement_counts(second, said):
    proven, calls = prove(asked(1e6, 2e6, vehicles=1), 2, "off", second)
    assert calls == [[1e6 + 1, 2e6 + 1]] * 2
    assert all(one.again for one in proven)
    assert [check.verdict for check in after_run.probe_checks([one.as_dict() for one in proven])] == [said]


def probe(made, vehicles, *rounds):
    """Probe limits as `prove` proves all; return the rates of seconds whose losses are counted, too."""
    calls, counted = [], []

    def proving(_link, asked, seconds, _first):
        verdict = rounds[len(calls)]
        calls.append([step.uplink.rate_bps for step in asked if step.saturated])
        counted.extend(step.uplink.rate_bps for step in asked if not step.saturated)
        assert seconds == after_run.LIMITS.traffic_s
        rate = Check("rate, UDP", "uplink", "1", verdict, "2 %", verdict, 1.0, 1.0)
        loss = Check("loss", "uplink", "0", "0", "chance", "unproven", 0.0, 0.0)
        return [
            Proof(step, number, [rate if step.saturated else loss]) for number, step in enumerate(asked, 1)
        ]

    depth = after_run.LIMITS._replace(proving=proving)
    return after_run.prove_after_run(Idle(), made, vehicles, depth=depth), calls, counted


def test_a_probe_of_limits_takes_three_seconds_that_a_flow_can_reach_at_once():
    out_of_reach = [
        Asked(1, 90, Condition(5_000.0, 30.0), Condition(1e6, 30.0)),  # below the meter's floor
        Asked(1, 91, Condition(70e6, 30.0), Condition(None, 30.0)),
    ]
    made = [*out_of_reach, *asked(1e6, 2e6, 3e6, 4e6, 5e6)]
    proven, calls, counted = probe(made, 10, "pass")
    assert calls == [[1e6 + 1, 3e6 + 1, 5e6 + 1]]
    assert counted == [70e6]  # on the fastest most packets are a light load
    assert not any(one.again for one in proven)
    assert len(proven) == 4
    assert probe(out_of_reach, 10, "pass")[1:] == ([[]], [70e6])
    assert probe(out_of_reach[:1], 10) == ([], [], [])
    assert probe(asked(25e6, 30e6, 35e6), 10, "pass")[1] == [[25e6 + 1, 30e6 + 1]]  # all three are too much
    assert probe(made, 3, "pass")[1] == [[1e6 + 1, 5e6 + 1]]  # the third vehicle's losses are counted


def test_a_link_without_a_limit_has_its_losses_counted():
    free = Asked(1, 92, Condition(None, 30.0, 0.01), Condition(None, 30.0))
    assert probe([free], 2, "pass")[1:] == ([[]], [None])


def test_a_probe_of_one_vehicle_takes_a_second_with_a_rate_rather_than_an_outage():
    dark = Asked(1, 9, Condition(0.0, 30.0), Condition(0.0, 30.0))
    assert dark.uplink.outage
    assert probe([dark, *asked(1e6, 2e6)], 1, "pass", "pass")[1:] == ([[1e6 + 1], []], [2e6 + 1])
    assert probe([dark], 1, "pass")[1:] == ([[0.0]], [])
    assert probe([dark, *asked(1e6, 2e6)], 4, "pass")[1:] == ([[0.0, 1e6 + 1, 2e6 + 1]], [2e6 + 1])


def test_a_rate_that_a_late_sender_left_unproven_is_measured_again():
    proven, calls, counted = probe(asked(1e6), 2, "unproven", "pass")
    assert len(calls) == 2
    assert [(one.again, one.checks[0].verdict) for one in proven] == [(True, "pass"), (False, "unproven")]
    assert counted == [1e6 + 1]  # too few packets are as few the second time


@pytest.mark.parametrize(
    ("packets", "lost", "verdict"), [(1_000, 9, "pass"), (1_000, 60, "off"), (200, 2, "unproven")]
)
def test_a_probes_losses_pass_only_where_another_loss_would_have_shown(packets, lost, verdict):
    flow = Flow(1, "uplink", 114, 0.002, packets, received_at_ns=dict.fromkeys(range(packets - lost), 1))
    (check,) = _judge_losses(flow, Condition(1e6, 30.0, 0.01))
    assert (check.parameter, check.verdict) == ("loss", verdict)


def probed(verdict, parameter="rate, UDP", direction="uplink"):
    check = Check(parameter, direction, "5.000 Mbit/s", "4.999 Mbit/s", "within 1.5 %", verdict, 5e6, 4.999e6)
    return [after_run.ProvenSecond(vehicle_id(3), 17, False, [check]).as_dict()]


def certified(*seconds):
    rows = quiet(asked_rate_bps=5e6)
    return certificate(
        "uml", [as_columns(rows)], REPLAY, after_run.probe_checks([s for own in seconds for s in own])
    )


def test_a_sparse_run_is_proven_by_its_probe_only_in_both_directions():
    assert certified()["verdict"] == "unproven"
    assert certified(probed("pass"))["verdict"] == "unproven"  # downlink: nothing has shown it
    both = certified(probed("pass"), probed("pass", direction="downlink"))
    assert both["verdict"] == "pass"
    assert "rate uplink (saturating probe), rate downlink (saturating probe)." in both["statement"]
    assert "Too little traffic" not in both["statement"]
    row = next(c for c in both["checks"] if c["parameter"] == "rate, saturating probe")
    assert "YV2RT40A8KB000003, second 17" in row["power"]


def test_what_run_and_probe_both_prove_is_said_once():
    said = certified(probed("pass", "delay"))["statement"]
    assert said.count("delay uplink") == 1
    assert "probe)" not in said


def test_a_probe_that_is_off_makes_the_certificate_off():
    found = certified(probed("pass"), probed("off", direction="downlink"))
    assert found["verdict"] == "off"
    assert found["statement"].startswith("The link was OFF in: rate downlink (saturating probe).")


@pytest.mark.parametrize("verdict", ["pass", "off", "unproven"])
def test_the_audit_comes_to_the_same_verdict_from_the_seconds_alone(verdict):
    seconds = probed("pass", direction="downlink") + probed(verdict)
    said = certified(seconds)
    found = audited.Played(0).certified(said, {"seconds": seconds})
    assert found["verdict"] == said["verdict"]
    assert found["rate, saturating probe uplink verdict"] == verdict
    of_probe = {name: value for name, value in found.items() if "probe" in name and "bytes" not in name}
    assert audited.said_of(said, list(of_probe)) == of_probe
    assert len(of_probe) == 2
    wrong = {"seconds": probed("off", direction="downlink") + probed(verdict)}
    assert audited.Played(0).certified(said, wrong)["rate, saturating probe downlink verdict"] == "off"


def flow_at(rate_bps, share_lost, count=4_000):
    """Return a flow offered at 115 % of a rate, served exactly at it, with every nth burst of four lost."""
    flow = Flow(1, "uplink", 1514, 1514 * 8 / (1.15 * rate_bps), count)
    flow.sent_at_ns = [round(n * flow.interval_s * 1e9) for n in range(count)]
    every = round(4 / share_lost)
    flow.received_at_ns = {
        n: round((n + 1) * 1514 * 8e9 / rate_bps) for n in range(count) if n % every >= 4 or share_lost == 0
    }
    return flow


def test_losses_in_bursts_are_judged_by_their_mean():
    """`loss_ratio` is 0 where a Gilbert-Elliott model decides: the flow looked 5 % too slow."""
    model = GilbertElliott(0.25 * 0.05 / 0.95, 0.25)
    condition = Condition(10e6, 30.0, gilbert_elliott=model)
    assert judge_rate(flow_at(10e6, 0.05), condition).verdict == "pass"
    assert judge_rate(flow_at(8e6, 0.05), condition).verdict != "pass"
