"""A vehicle's vehicle_sender against a client of paper."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateways.protocols.backoff import Backoff
from gateways.protocols.ends import AccessRefusedError, ConnectError
from simulator.emission_log import EmissionLog, Kind, Reason
from simulator.emission_table import read_events, read_words
from simulator.fleet import Emission
from simulator.vehicle_sender import EmissionLag, Totals, VehicleSender


class Client:
    def __init__(self, window: int = 1) -> None:
        self.window = window
        self.sent: list[int] = []
        self.flying = 0
        self.up = True
        self.refusals = 0
        self.attempts = 0
        self.resets = 0
        self.error: Exception | None = None
        self.owner: VehicleSender

    async def connect(self) -> None:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        if self.refusals:
            self.refusals -= 1
            raise ConnectError("no")
        self.up = True
        self.owner.connected(9, session_present=True)

    async def close(self) -> None:
        self.up = False

    def ready(self) -> bool:
        return self.up and self.flying < self.window

    def send(self, token: int, _payload: bytes) -> None:
        assert self.ready()
        self.flying += 1
        self.sent.append(token)
        if self.resets:
            self.resets -= 1
            self.up, self.flying = False, 0
            self.owner.disconnected(5, "reset")

    def in_flight(self) -> int:
        return self.flying


@pytest.fixture
def log(tmp_path: Path):
    made = EmissionLog(tmp_path / "events")
    yield made
    made.close()


def vehicle_sender(
    log: EmissionLog, policy="drop_oldest", limit=3, totals=None, lag: EmissionLag | None = None
) -> VehicleSender:
    made = VehicleSender(
        7, log, totals or Totals(), backoff=Backoff(0.001, 0.002), limit=limit, policy=policy, lag=lag
    )
    made.client = Client()
    made.client.owner = made
    return made


def message(sequence: int) -> Emission:
    return Emission(sequence * 10, 7, 1, sequence, b"x" * sequence)


def sequences(tmp_path: Path, kind: Kind) -> list[int]:
    events = read_events(tmp_path / "events")
    return events[events["kind"] == kind]["sequence"].tolist()


def test_what_cannot_go_is_buffered_and_sent_in_order(log, tmp_path) -> None:
    one = vehicle_sender(log)
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


def test_the_longest_lag_is_that_of_the_message_that_waited_longest(log, tmp_path, monkeypatch) -> None:
    """Message k is due at 10 k ns after second 0, at 1,000 ns; only one may be on its way."""
    lag = EmissionLag(start_at_ns=1_000)
    one = vehicle_sender(log, lag=lag)
    for now_ns, sequence in ((1_012, 1), (1_020, 2), (1_030, 3)):
        monkeypatch.setattr("time.time_ns", lambda now_ns=now_ns: now_ns)
        one.offer(message(sequence))
    assert (lag.take_max_ns(), lag.take_max_ns()) == (2, None)
    for now_ns in (1_500, 1_505):
        monkeypatch.setattr("time.time_ns", lambda now_ns=now_ns: now_ns)
        one.client.flying -= 1
        one.acknowledged(1 << 40, now_ns)
    assert lag.take_max_ns() == 1_500 - 1_020
    log.flush()
    events = read_events(tmp_path / "events")
    assert events[events["kind"] == Kind.EMITTED]["at_ns"].tolist() == [1_012, 1_500, 1_505]


@pytest.mark.parametrize(
    ("policy", "unsent", "left"),
    [("drop_oldest", [2], [3, 4, 5]), ("drop_newest", [5], [2, 3, 4]), ("block", [], [2, 3, 4, 5])],
)
async def test_policies(log, tmp_path, policy, unsent, left) -> None:
    totals = Totals()
    one = vehicle_sender(log, policy, totals=totals)
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
    assert totals.due == totals.emitted + totals.unsent == 5


async def come_up(one: VehicleSender) -> None:
    """Wait until the vehicle is connected; no more than the loop's own turns are needed for a client of paper."""
    async with asyncio.timeout(5):
        while not one.client.up:
            await asyncio.sleep(0.001)


async def test_reconnects_until_it_works_and_then_sends_the_backlog(log, tmp_path) -> None:
    one = vehicle_sender(log)
    one.client.refusals = 3
    one.client.up = False
    one.offer(message(1))
    await asyncio.wait_for(one.open(), 5)
    assert one.client.attempts == 4
    assert len(one.client.sent) == 1
    log.flush()
    connected = read_events(tmp_path / "events")
    (row,) = connected[connected["kind"] == Kind.CONNECTED]
    assert (row["sequence"], row["size"]) == (1, 1)
    assert len(sequences(tmp_path, Kind.CONNECT_FAILED)) == 3
    await one.close()


async def test_an_identity_that_is_refused_is_counted_each_time_and_named_once(log, caplog) -> None:
    totals = Totals()
    one = vehicle_sender(log, totals=totals)
    one.client.error = AccessRefusedError("broker:8883 refuses: certificate expired")
    opening = one.open()
    async with asyncio.timeout(5):
        while one.client.attempts < 4:
            await asyncio.sleep(0.001)
    assert totals.access_refused >= 3
    assert totals.connect_failures == totals.access_refused
    named = [record.getMessage() for record in caplog.records]
    assert named == ["YV2RT40A8KB000007 is refused: broker:8883 refuses: certificate expired"]
    one.client.error = None
    await asyncio.wait_for(opening, 5)
    await one.close()


async def test_a_closed_vehicle_does_not_reconnect(log) -> None:
    one = vehicle_sender(log)
    await one.open()
    await one.close()
    one.disconnected(5, "gone")
    await asyncio.sleep(0.01)
    assert one.client.attempts == 1


async def test_a_reset_while_the_backlog_goes_out_is_a_loss_like_any_other(log, tmp_path) -> None:
    """CONNACK, then RST: the client reports the loss from within `send`, from within `connected`, from within `connect`."""
    totals = Totals()
    one = vehicle_sender(log, totals=totals)
    one.client.up = False
    one.client.resets = 2
    for sequence in (1, 2):
        one.offer(message(sequence))
    await asyncio.wait_for(one.open(), 5)
    await come_up(one)
    assert one.client.attempts == 3
    assert (totals.connected, totals.disconnections) == (1, 2)
    log.flush()
    assert len(sequences(tmp_path, Kind.DISCONNECTED)) == 2
    await one.close()


@pytest.mark.parametrize("error", [KeyError("no"), RuntimeError("no"), OSError("no")])
async def test_an_error_nobody_expected_is_told_to_the_loop(log, error) -> None:
    told = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.set_result(context))
    one = vehicle_sender(log)
    one.client.error = error
    one.open()
    context = await asyncio.wait_for(told, 5)
    assert context["exception"] is error
    assert "vehicle 7" in context["message"]
    await one.close()


@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        ("refused", Kind.REFUSED, Reason.REFUSED_BY_PEER),
        ("unanswered", Kind.UNANSWERED, Reason.NO_ANSWER),
    ],
)
def test_a_message_that_was_given_up_counts_as_emitted_and_says_by_whom(
    log, tmp_path, event, kind, reason
) -> None:
    totals = Totals()
    one = vehicle_sender(log, totals=totals)
    one.offer(message(1))
    one.client.flying = 0
    getattr(one, event)(1 << 40 | 1, "why")
    log.flush()
    assert sequences(tmp_path, kind) == [1]
    assert [row["reason"] for row in read_events(tmp_path / "events") if row["kind"] == kind] == [reason]
    said = list(read_words(read_events(tmp_path / "events")).values())
    assert said == (["why"] if event == "refused" else [])
    assert (totals.emitted, totals.unsent, getattr(totals, event)) == (1, 0, 1)
