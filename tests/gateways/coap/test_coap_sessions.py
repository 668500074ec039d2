"""A vehicle's session with the gateway, told again with each datagram of it lost, late, doubled, or the last for a while.

Both ends are the product's, with the RFC's times; the datagrams go from one to the other without a network, and the clock
goes on when nothing else is to be done.
"""

from __future__ import annotations

import asyncio
import gc
import random
import selectors
from collections.abc import Callable, Sequence

import pytest

from gateways.protocols.base import Endpoint, IntakeSettings, VehicleSettings
from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.protocol import Coap
from gateways.protocols.coap.udp import UdpEndpoint

MESSAGES = (b"first", b"of three blocks" * 90, b"third")
BLOCK_BYTES = 512
VEHICLE = Remote(("127.0.0.1", 40_000))
DELAY_S = 0.05
CUT_S = 20.0
# How long a session may take, and for how long something may still come behind it.
LIMIT_S, AFTER_S = 600.0, 300.0
# What becomes of a datagram: after how long it comes, each time.
FAULTS = {"lost": (), "late": (3.0,), "doubled": (DELAY_S, DELAY_S), "again": (DELAY_S, 60.0)}


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to what is due next."""

    def __init__(self):
        self.now_s = 0.0
        super().__init__(_Jumping(self))

    def time(self):
        return self.now_s


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "nothing is due any more"
        self._loop.now_s += max(timeout, 0.0)
        return super().select(0)


class Vehicle:
    """The sender of one vehicle: hands over the next message as soon as it may, and notes what becomes of each."""

    def __init__(self):
        self.client = None
        self.ends = []
        self._left = list(enumerate(MESSAGES))

    def pump(self):
        while self._left and self.client.ready():
            self.client.send(*self._left.pop(0))

    def over(self):
        return len(self.ends) >= len(MESSAGES) and not self.client.in_flight()

    def _end(self, token, how):
        self.ends.append((token, how))
        asyncio.get_running_loop().call_soon(self.pump)

    def acknowledged(self, token, at_ns):
        self._end(token, "acknowledged")

    def refused(self, token, reason):
        self._end(token, "refused")

    def unanswered(self, token, reason):
        self._end(token, "unanswered")

    def postponed(self, token, reason):
        raise AssertionError("no message was put off")

    def connected(self, at_ns, session_present):
        pass

    def disconnected(self, at_ns, reason):
        raise AssertionError("UDP has no connection to lose")

    def writable(self):
        self.pump()


class Bridge:
    """Takes messages, and has them in Kafka so long after."""

    def __init__(self, after_s):
        self.after_s = after_s
        self.taken = []
        self.intake = None

    def take(self, vehicle_id, payload, received_at_ns, duplicate, receipt, content_type=""):
        assert not duplicate
        self.taken.append(payload)
        asyncio.get_running_loop().call_later(self.after_s, self.intake.acknowledge, receipt)

    def link(self, up, reason):
        assert (up, reason) == (True, "listening")

    def misaddressed(self, address, payload, received_at_ns, receipt, reason):
        raise AssertionError(address)


class Session:
    """One session, and what came of it.

    Attributes:
        datagrams: how many were sent, either way.
        ends: how each message ended, by its place in MESSAGES, in the order of ending.
        taken: payloads that the gateway took.
    """

    def __init__(self, monkeypatch, mode, kafka_s, fault: Callable[[int, float], Sequence[float]]):
        self.datagrams = 0
        self._fault = fault
        self._gateway = self._of_vehicle = None
        monkeypatch.setattr(UdpEndpoint, "_send_datagram", lambda end, datagram, _: self._send(end, datagram))
        random.seed(f"{mode} {kafka_s}")
        with asyncio.Runner(loop_factory=ClockLoop) as runner:
            runner.run(self._told(mode, kafka_s))

    def _send(self, end, datagram):
        loop = asyncio.get_running_loop()
        to, sender = (
            (self._gateway, VEHICLE) if end is self._of_vehicle else (self._of_vehicle, Remote(self._address))
        )
        for delay_s in self._fault(self.datagrams, loop.time()):
            loop.call_later(delay_s, to.receive, datagram, sender)
        self.datagrams += 1

    async def _told(self, mode, kafka_s):
        protocol, vehicle, bridge = Coap(), Vehicle(), Bridge(kafka_s)
        intake = protocol.intake(Endpoint("127.0.0.1", 0), protocol.modes["con"], bridge, IntakeSettings())
        await intake.open()
        bridge.intake, self._address = intake, intake.endpoint()
        vehicle.client = protocol.vehicle_client(
            Endpoint(*self._address),
            1,
            protocol.modes[mode],
            vehicle,
            VehicleSettings(coap_block_bytes=BLOCK_BYTES),
        )
        await vehicle.client.connect()
        self._gateway, self._of_vehicle = intake._udp, vehicle.client._udp
        vehicle.pump()
        async with asyncio.timeout(LIMIT_S):
            while not vehicle.over():
                await asyncio.sleep(0.1)  # by the loop's own clock, which jumps
        await asyncio.sleep(AFTER_S)
        await vehicle.client.close()
        await intake.close()
        self.ends, self.taken = vehicle.ends, bridge.taken


SESSIONS = pytest.mark.parametrize("mode", ["con", "non"])
# At once, or so late that the gateway acknowledges first and answers by itself (RFC 7252, 5.2.2).
ANSWERS = pytest.mark.parametrize("kafka_s", [0.0, 1.0])


def undisturbed(number, at_s):
    return (DELAY_S,)


@SESSIONS
@ANSWERS
def test_undisturbed_it_is_as_short_as_can_be(monkeypatch, mode, kafka_s):
    session = Session(monkeypatch, mode, kafka_s, undisturbed)
    assert session.taken == list(MESSAGES)
    assert session.ends == [(number, "acknowledged") for number in range(len(MESSAGES))]
    blocks = -(-len(MESSAGES[1]) // BLOCK_BYTES)
    # A request and a response each; a CON that is answered later is acknowledged before, and so is its answer.
    later = 2 * len(MESSAGES) if mode == "con" and kafka_s else 0
    assert session.datagrams == 2 * (len(MESSAGES) - 1 + blocks) + later


@SESSIONS
@ANSWERS
def test_a_message_leaves_nothing_to_the_cyclic_collector(monkeypatch, mode, kafka_s):
    """It stops the sender for 0.1 to 0.25 s where it has 100,000 objects to go through: messages are due meanwhile."""

    def left(messages):
        monkeypatch.setattr(f"{__name__}.MESSAGES", messages)
        gc.collect()
        Session(monkeypatch, mode, kafka_s, undisturbed)
        return gc.collect()

    few, many = MESSAGES[:2] * 10, MESSAGES[:2] * 60
    gc.disable()
    try:
        left(few)
        assert left(many) - left(few) < len(many) - len(few)
    finally:
        gc.enable()


@SESSIONS
@ANSWERS
@pytest.mark.parametrize("fault", FAULTS)
def test_one_datagram_less_late_or_twice(monkeypatch, mode, kafka_s, fault):
    count = Session(monkeypatch, mode, kafka_s, undisturbed).datagrams
    for at in range(count):
        session = Session(
            monkeypatch, mode, kafka_s, lambda number, _, at=at: FAULTS[fault] if number == at else (DELAY_S,)
        )
        ends = dict(session.ends)
        assert sorted(ends) == list(range(len(MESSAGES))) == sorted(number for number, _ in session.ends), at
        assert len(set(session.taken)) == len(session.taken), at
        acknowledged = [number for number, how in session.ends if how == "acknowledged"]
        assert {MESSAGES[number] for number in acknowledged} <= set(session.taken), at
        if mode == "con":
            assert session.taken == list(MESSAGES), at
            assert acknowledged == [0, 1, 2], at
        else:
            assert set(session.taken) <= set(MESSAGES), at
            # Nothing repairs the loss of a NON, and it costs no other message.
            assert len(acknowledged) >= len(MESSAGES) - (fault == "lost"), (at, session.ends)


@SESSIONS
@ANSWERS
def test_a_link_that_is_away_for_a_while_from_any_datagram_on(monkeypatch, mode, kafka_s):
    count = Session(monkeypatch, mode, kafka_s, undisturbed).datagrams
    for at in range(count):
        away = Away(at)
        session = Session(monkeypatch, mode, kafka_s, away)
        assert sorted(number for number, _ in session.ends) == [0, 1, 2], at
        assert len(set(session.taken)) == len(session.taken), at
        acknowledged = [number for number, how in session.ends if how == "acknowledged"]
        assert {MESSAGES[number] for number in acknowledged} <= set(session.taken) <= set(MESSAGES), at
        if mode == "con":
            assert session.taken == list(MESSAGES), at
            assert acknowledged == [0, 1, 2], at


class Away:
    """Loses a datagram, and all that are sent within CUT_S of it."""

    def __init__(self, at):
        self._at, self._until_s = at, None

    def __call__(self, number, at_s):
        if number == self._at:
            self._until_s = at_s + CUT_S
        away = self._until_s is not None and at_s < self._until_s
        return () if away else (DELAY_S,)
