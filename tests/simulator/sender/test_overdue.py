"""A sender that is behind: it catches up, and reads what its peers answer meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

from simulator.fleet import Emission, Fleet
from simulator.scenario import Scenario
from simulator.sender import Sender
from simulator.sender_config import SenderConfig

MESSAGES = 1_000


class Vehicle:
    """Takes every message at once."""

    def __init__(self) -> None:
        self.taken: list[Emission] = []

    def offer(self, emission: Emission) -> None:
        self.taken.append(emission)


def sender_of(tmp_path: Path) -> tuple[Sender, Vehicle]:
    scenario = Scenario(vehicles=1, interval_s=0.001, duration_s=MESSAGES / 1_000, format="small")
    config = SenderConfig(
        protocol="coap", mode="con", host="127.0.0.1", port=9, scenario=scenario, events_path=str(tmp_path / "events")
    )  # fmt: skip
    sender, vehicle = Sender(config), Vehicle()
    sender._vehicle_senders = {1: vehicle}  # type: ignore[dict-item]
    return sender, vehicle


async def end(sender: Sender) -> None:
    sender._vehicle_senders = {}
    await sender.close()


async def test_answers_are_read_while_much_is_overdue(tmp_path: Path) -> None:
    sender, vehicle = sender_of(tmp_path)
    loop = asyncio.get_running_loop()
    peer, own = socket.socketpair()
    taken_at_answers: list[int] = []

    def answered() -> None:
        own.recv(1)
        taken_at_answers.append(len(vehicle.taken))

    loop.add_reader(own, answered)
    try:
        peer.send(b"....")
        sender._prepared.extend(Fleet(sender._config.scenario).emissions(0))
        sender._start_at_ns = time.time_ns() - 10**10
        sender._exhausted = True
        sender._arm()
        async with asyncio.timeout(20):
            await sender._sent_all.wait()
            while len(taken_at_answers) < 4:
                await asyncio.sleep(0)
    finally:
        loop.remove_reader(own)
        peer.close()
        own.close()
        await end(sender)
    assert [one.sequence for one in vehicle.taken] == list(range(1, MESSAGES + 1))
    assert max(taken_at_answers) < MESSAGES / 2


async def test_a_start_that_lies_far_in_the_past_sends_everything_in_order(tmp_path: Path) -> None:
    sender, vehicle = sender_of(tmp_path)
    sender.start(time.time_ns() - 10**10)
    try:
        async with asyncio.timeout(20):
            await sender._sent_all.wait()
    finally:
        await end(sender)
    assert [one.sequence for one in vehicle.taken] == list(range(1, MESSAGES + 1))
