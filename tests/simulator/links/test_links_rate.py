"""The rate of a saturating flow by hand: what a link's queue would let out, and senders that are too slow to say."""

import struct

import pytest

from simulator.links import Condition
from simulator.links.proof import bulk_tcp
from simulator.links.proof.probes import Flow
from simulator.links.proof.verify_rate import judge_rate
from simulator.links.proof.verify_replay import judge_second
from simulator.links.replay import SECOND_NS
from simulator.links.step_log import Second

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


class Clock:
    """Stands for time and for a TCP socket whose 0.8 s of data wait behind a lost segment until 1.0 s."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def select(self, readers, _writers, _others, _timeout_s):
        return readers, [], []

    def recv(self, _size):
        self.now += 0.05
        return b"x"

    def getsockopt(self, _level, _name, size):
        """Return tcp_info, with the bytes that the kernel has received at its end."""
        crossed_s = self.now if self.now < 0.2 or self.now >= 1.0 else 0.2
        return struct.pack("=Q", round(crossed_s * RATE_BPS / 8)).rjust(size, b"\0")


@pytest.mark.parametrize(("skipped", "above"), [(0.0, False), (0.25, True)])
def test_a_lossy_transfer_is_counted_from_its_begin(monkeypatch, skipped, above):
    """From a later begin on, what waited behind the lost segment counts as if it had crossed since."""
    clock = Clock()
    for name in ("time", "select"):
        monkeypatch.setattr(bulk_tcp, name, clock)
    rate = bulk_tcp.received_bps(clock, 2.0, skipped)
    assert (rate > RATE_BPS * 1.05) == above
    assert above or rate == pytest.approx(RATE_BPS, rel=0.01)


def late_step(second, asked_bps, late_ms):
    pair = (Condition(asked_bps, 20.0), Condition(None, 20.0))
    due_at_ns = second * SECOND_NS
    return Second(second, {1: pair}, due_at_ns, due_at_ns + round(late_ms * 1e6), 1_000_000)


def second_of(bits, *, late_ms=0, paused_s=0.0):
    """Return the check of the second after a change from 1 to 4 Mbit/s; the sender paused in its middle."""
    steps = [late_step(0, 1e6, 0), late_step(0, 1e6, 0), late_step(1, 4e6, late_ms)]
    flow = Flow(1, "uplink", FRAME_BYTES, FRAME_NS / 1e9 / 1.15, 5_000)
    times = (round(number * FRAME_NS / 1.15) for number in range(3 * COUNT))
    flow.sent_at_ns = [at for at in times if abs(at - 1.5 * SECOND_NS) >= paused_s * SECOND_NS / 2]
    frames = round(bits / 8 / FRAME_BYTES)
    for number in range(frames):
        flow.take(number, SECOND_NS + 20_000_000 + round(number * SECOND_NS / frames))
    return judge_second(flow, 1, steps)


@pytest.mark.parametrize(
    ("late_ms", "bits", "verdict"),
    [(0, 4e6, "pass"), (0, 3.25e6, "off"), (250, 3.25e6, "pass"), (250, 4e6, "off"), (250, 2.5e6, "off")],
)
def test_a_second_is_judged_by_the_rates_in_force_in_it(late_ms, bits, verdict):
    """From 1 to 4 Mbit/s: a quarter of a second late, 3.25 Mbit are right and 4 are not."""
    check = second_of(bits, late_ms=late_ms)
    assert check.asked_value == pytest.approx(4e6 - late_ms / 1e3 * 3e6)
    assert check.verdict == verdict


@pytest.mark.parametrize(
    ("paused_s", "bits", "verdict"),
    [
        (0.3, 3.3e6, "unproven"),
        (0.3, 4e6, "pass"),
        (0.3, 2e6, "off"),
        (0.3, 4.5e6, "off"),
        (0.0, 3.3e6, "off"),
    ],
)
def test_a_second_in_which_the_sender_stood_still_proves_no_more_than_the_pause_explains(
    paused_s, bits, verdict
):
    check = second_of(bits, paused_s=paused_s)
    assert check.verdict == verdict
    assert ("left the link idle for 2" in check.achieved) == (verdict == "unproven")
