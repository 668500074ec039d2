"""A vehicle's lane against a client of paper."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateways.protocols.backoff import Backoff
from gateways.protocols.base import ConnectError
from simulator.emission_log import EmissionLog, Kind, Reason
from simulator.emission_table import read_events
from simulator.fleet import Emission
from simulator.lane import Lane, Totals


class Client:
    def __init__(self, window: int = 1) -> None:
        self.window = window
        self.sent: list[int] = []
        self.flying = 0
        self.up = True
        self.refusals = 0
        self.attempts = 0

    async def connect(self) -> None:
        self.attempts += 1
        if self.refusals:
            self.refusals -= 1
            raise ConnectError("no")
        self.up = True

    async def close(self) -> None:
        self.up = False

    def ready(self) -> bool:
        return self.up and self.flying < self.window

    def send(self, token: int, _payload: bytes) -> None:
        assert self.ready()
        self.flying += 1
        self.sent.append(token)

    def in_flight(self) -> int:
        return self.flying


@pytest.fixture
def log(tmp_path: Path):
    made = EmissionLog(tmp_path / "events")
    yield made
    made.close()


def lane(log: EmissionLog, policy="drop_oldest", limit=3) -> Lane:
    made = Lane(7, log, Totals(), backoff=Backoff(0.001, 0.002), limit=limit, policy=policy)
    made.client = Client()
    return made


def message(sequence: int) -> Emission:
    return Emission(sequence * 10, 7, 1, sequence, b"x" * sequence)


def sequences(tmp_path: Path, kind: Kind) -> list[int]:
    events = read_events(tmp_path / "events")
    return events[events["kind"] == kind]["sequence"].tolist()


def test_what_cannot_go_is_buffered_and_sent_in_order(log, tmp_path) -> None:
    one = lane(log)
    for sequence in (1, 2, 3):
        one.offer(message(sequence))
    assert not one.idle()
    for sequence in (1, 2, 3):
        one.client.flying -= 1
        one.acknowledged(1 << 40 | sequence, 1000 + sequence)
    log.flush()
    assert one.idle()
    assert [token & 0xFF for token in one.client.sent] == [1, 2, 3]
    assert sequences(tmp_path, Kind.EMITTED) == [1, 2, 3]
    assert sequences(tmp_path, Kind.BUFFERED) == [2, 3]
    assert sequences(tmp_path, Kind.ACKNOWLEDGED) == [1, 2, 3]


@pytest.mark.parametrize(
    ("policy", "unsent", "left"),
    [("drop_oldest", [2], [3, 4, 5]), ("drop_newest", [5], [2, 3, 4]), ("block", [], [2, 3, 4, 5])],
)
async def test_policies(log, tmp_path, policy, unsent, left) -> None:
    one = lane(log, policy)
    for sequence in range(1, 6):
        one.offer(message(sequence))
    log.flush()
    assert sequences(tmp_path, Kind.UNSENT) == unsent
    await one.close()
    log.flush()
    assert sequences(tmp_path, Kind.UNSENT) == unsent + left
    events = read_events(tmp_path / "events")
    last = events[events["kind"] == Kind.UNSENT][-1]
    assert last["reason"] == Reason.LEFT_AT_END
    assert one._totals.due == one._totals.emitted + one._totals.unsent == 5


async def test_reconnects_until_it_works_and_then_sends_the_backlog(log, tmp_path) -> None:
    one = lane(log)
    one.client.up = False
    one.client.refusals = 3
    one.offer(message(1))
    one.disconnected(5, "gone")
    await asyncio.wait_for(asyncio.shield(one._connecting), 5)
    one.connected(9, session_present=True)
    assert one.client.attempts == 4
    assert len(one.client.sent) == 1
    log.flush()
    connected = read_events(tmp_path / "events")
    (row,) = connected[connected["kind"] == Kind.CONNECTED]
    assert (row["sequence"], row["size"]) == (1, 1)
    assert len(sequences(tmp_path, Kind.CONNECT_FAILED)) == 3
    await one.close()


async def test_a_closed_lane_does_not_reconnect(log) -> None:
    one = lane(log)
    await one.close()
    one.disconnected(5, "gone")
    assert one._connecting is None


def test_a_refused_message_counts_as_emitted(log, tmp_path) -> None:
    one = lane(log)
    one.offer(message(1))
    one.client.flying = 0
    one.refused(1 << 40 | 1, "time-out")
    log.flush()
    assert sequences(tmp_path, Kind.REFUSED) == [1]
    assert (one._totals.emitted, one._totals.unsent) == (1, 0)
