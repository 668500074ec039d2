"""A sender that is behind: it catches up, and reads what its peers answer meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

from simulator.fleet import Emission, Fleet
from simulator.open_loop import OpenLoop
from simulator.scenario import Scenario

MESSAGES = 1_000


class Vehicle:
    """Takes every message at once."""

    def __init__(self) -> None:
        self.taken: list[Emission] = []

    def offer(self, emission: Emission) -> None:
        self.taken.append(emission)


def emissions(start_at_ns: int) -> Iterator[Emission]:
    scenario = Scenario(vehicles=1, interval_s=0.001, duration_s=MESSAGES / 1_000, format="small")
    return Fleet(scenario).emissions(start_at_ns)


async def test_answers_are_read_while_much_is_overdue() -> None:
    vehicle = Vehicle()
    schedule = OpenLoop({1: vehicle})
    start_at_ns = time.time_ns() + 2 * 10**8
    prepared = asyncio.Event()

    def all_due_at_the_start() -> Iterator[Emission]:
        for one in emissions(start_at_ns):
            yield one._replace(due_offset_ns=0)
        prepared.set()

    loop = asyncio.get_running_loop()
    peer, own = socket.socketpair()
    taken_at_answers: list[int] = []

    def answered() -> None:
        own.recv(1)
        taken_at_answers.append(len(vehicle.taken))

    loop.add_reader(own, answered)
    try:
        schedule.start(all_due_at_the_start(), start_at_ns)
        async with asyncio.timeout(20):
            await prepared.wait()
            time.sleep(0.3)  # noqa: ASYNC251 - everything is overdue once the loop turns again
            peer.send(b"....")
            await schedule.sent_all.wait()
            while len(taken_at_answers) < 4:
                await asyncio.sleep(0)
    finally:
        loop.remove_reader(own)
        peer.close()
        own.close()
        schedule.close()
    assert [one.sequence for one in vehicle.taken] == list(range(1, MESSAGES + 1))
    assert max(taken_at_answers) < MESSAGES / 2


async def test_a_start_that_lies_far_in_the_past_sends_everything_in_order() -> None:
    vehicle = Vehicle()
    schedule = OpenLoop({1: vehicle})
    start_at_ns = time.time_ns() - 10**10
    schedule.start(emissions(start_at_ns), start_at_ns)
    try:
        async with asyncio.timeout(20):
            await schedule.sent_all.wait()
    finally:
        schedule.close()
    assert [one.sequence for one in vehicle.taken] == list(range(1, MESSAGES + 1))
