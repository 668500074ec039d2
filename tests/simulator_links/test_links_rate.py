"""The rate of a saturating flow by hand: what a link's queue would let out, and senders that are too slow to say."""

import pytest

from simulator.links import Condition
from simulator.links.probes import Flow
from simulator.links.verify_rate import judge_rate

RATE_BPS, FRAME_BYTES = 4e6, 1514
FRAME_NS = FRAME_BYTES * 8e9 / RATE_BPS
COUNT = 570


def flow_of(*, served_bps=RATE_BPS, every=0, offered=1.15, pause=(0, 0.0)):
    """Return a flow of which every `every`th frame is lost, its sender pausing before a frame for some seconds."""
    flow = Flow(1, "uplink", FRAME_BYTES, FRAME_NS / 1e9 / offered, COUNT)
    free_ns = 0.0
    for number in range(COUNT):
        late_ns = pause[1] * 1e9 if number >= pause[0] > 0 else 0.0
        sent_ns = number * FRAME_NS / offered + late_ns
        flow.sent_at_ns.append(round(sent_ns))
        free_ns = max(free_ns, sent_ns) + FRAME_BYTES * 8e9 / served_bps
        if not every or number % every:
            flow.take(number, round(free_ns))
    return flow


@pytest.mark.parametrize(
    ("served", "verdict"), [(1.0, "pass"), (1.014, "pass"), (1.03, "off"), (0.986, "pass"), (0.97, "off")]
)
def test_a_rate_is_judged_within_its_tolerance(served, verdict):
    check = judge_rate(flow_of(served_bps=RATE_BPS * served), Condition(RATE_BPS, 20.0))
    assert check.verdict == verdict
    assert check.achieved_value == pytest.approx(RATE_BPS * served, rel=0.005)


@pytest.mark.parametrize(("served", "verdict"), [(1.0, "pass"), (1.05, "pass"), (1.1, "off"), (0.94, "off")])
def test_what_was_lost_may_have_been_the_meters_credit(served, verdict):
    """One frame in twenty lost: 3.8 Mbit/s, up to 50 ms of the rate more in 1.7 s, and the chance in the loss."""
    check = judge_rate(flow_of(served_bps=RATE_BPS * served, every=20), Condition(RATE_BPS, 20.0, 0.05))
    assert (check.verdict, "credit" in check.tolerance) == (verdict, True)


def test_a_slow_sender_proves_nothing():
    check = judge_rate(flow_of(offered=1.02), Condition(RATE_BPS, 20.0))
    assert (check.verdict, check.achieved) == ("unproven", "the sender offered 4.080 Mbit/s")


def test_a_sender_that_paused_proves_nothing():
    check = judge_rate(flow_of(offered=1.3, pause=(10, 0.1)), Condition(RATE_BPS, 20.0))
    assert check.verdict == "unproven"
    assert "left the link idle for 9" in check.achieved
    assert judge_rate(flow_of(offered=1.3, pause=(500, 0.1)), Condition(RATE_BPS, 20.0)).verdict == "pass"
