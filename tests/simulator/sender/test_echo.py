"""The echo's receiver counts each message once, whatever the network repeats."""

from __future__ import annotations

import asyncio
from typing import Any

from gateways.protocols.backoff import Backoff
from gateways.protocols.ends import ConnectError
from schemas.formats.base import Peek
from simulator.echo import Echo
from simulator.emission_log import Kind
from simulator.vehicle_sender import Totals


class Log:
    def __init__(self) -> None:
        self.notes: list[tuple[int, int, int]] = []

    def note(self, kind: int, _vehicle: int, _at_ns: int, *, epoch: int, sequence: int, size: int) -> None:
        assert kind == Kind.RECEIVED
        self.notes.append((epoch, sequence, size))


class Numbers:
    """Payloads `epoch sequence`; `modulus` makes the sequence wrap."""

    def __init__(self, modulus: int | None = None) -> None:
        self.sequence_modulus = modulus

    def peek(self, payload: bytes) -> Peek:
        epoch, sequence = map(int, payload.split())
        return Peek(sequence, epoch, None, None)


def echo(modulus: int | None = None) -> tuple[Echo, Log, Totals]:
    log, totals = Log(), Totals()
    some: Any = Numbers(modulus)
    return Echo(1, 3, some, log, totals), log, totals  # type: ignore[arg-type]


def test_a_repeated_message_arrives_once() -> None:
    made, log, totals = echo()
    for payload in (b"3 1", b"3 1", b"3 3", b"3 2", b"3 2", b"3 3"):
        made.received(payload, 5, duplicate=False)
    assert totals.received == 3
    assert [sequence for _, sequence, _ in log.notes] == [1, 3, 2]


def test_a_message_of_another_epoch_is_not_this_runs() -> None:
    made, log, totals = echo()
    made.received(b"2 1", 5, duplicate=False)
    assert (totals.received, log.notes) == (0, [])


def test_wrapping_sequences_are_unwrapped_and_counted_once() -> None:
    made, log, totals = echo(100)
    for number in [*range(1, 231), 230, 228]:
        made.received(b"3 %d" % ((number - 1) % 100 + 1), 5, duplicate=False)
    assert totals.received == 230
    assert [sequence for _, sequence, _ in log.notes] == list(range(1, 231))


class Receiver:
    """Is refused, then cut off within the subscription, then stays."""

    def __init__(self) -> None:
        self.attempts = 0
        self.owner: Echo
        self.closed = False

    async def open(self) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise ConnectError("refused")
        if self.attempts == 2:
            self.owner.disconnected(5, "reset")

    async def close(self) -> None:
        self.closed = True


async def test_a_first_subscription_that_fails_is_tried_again_at_the_vehicles_gate() -> None:
    log, totals, gate = Log(), Totals(), asyncio.Semaphore(1)
    some: Any = Numbers()
    made = Echo(1, 3, some, log, totals, backoff=Backoff(0.0, 0.0), gate=gate)  # type: ignore[arg-type]
    made.subscriber = receiver = Receiver()
    receiver.owner = made
    await gate.acquire()
    first = made.open()
    await asyncio.sleep(0.01)
    assert receiver.attempts == 0
    gate.release()
    await asyncio.wait_for(first, 5)
    assert (receiver.attempts, totals.subscribed) == (3, 1)
    made.disconnected(6, "cut")
    assert totals.subscribed == 0
    async with asyncio.timeout(5):
        while not totals.subscribed:
            await asyncio.sleep(0.001)
    await made.close()
    assert receiver.closed
    assert made.trouble == "cut"
