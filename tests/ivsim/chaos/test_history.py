"""Each thing that a history must not show is found in one that is made up, and a good one has none."""

from __future__ import annotations

from typing import Any

from ivsim.chaos.history import broken_history
from ivsim.chaos.promises import KEEPS, SAVED, Promise

VEHICLE = "YV2RT40A8KB000001"
Row = dict[str, Any]


def acknowledged(sequence: int, hop: str | None = None) -> Row:
    return {
        "vehicle_id": VEHICLE,
        "epoch": 1,
        "sequence": sequence,
        "acknowledged_at_ns": 1,
        "hop": hop,
    }


def record(topic: str, offset: int, sequence: int, messages: int | None = None) -> Row:
    texts = {
        "format": "json",
        "protocol": "mqtt",
        "mode": "qos1",
        "epoch": "1",
        "sequence": str(sequence),
        "received_at_ns": "5",
        "sampled_at_ns": "5",
    }
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "appended_at_ns": 6,
        "key": VEHICLE.encode(),
        "value_bytes": 10,
        "value_has_key": True,
        **{f"header_{name}": text.encode() for name, text in texts.items()},
        "header_messages": None if messages is None else str(messages).encode(),
    }


def status(*sequences: int) -> list[Row]:
    return [record("vehicle.status", offset, sequence) for offset, sequence in enumerate(sequences)]


def states(*written: tuple[int, int]) -> list[Row]:
    return [record("twin.state", offset, sequence, count) for offset, (sequence, count) in enumerate(written)]


def broken(
    ledger: list[Row], records: list[Row], promise: Promise = KEEPS, *, twin_killed: bool = False
) -> list[str]:
    return broken_history(ledger, records, promise, twin_killed=twin_killed, tolerance_ns=0)


def test_a_good_history_has_nothing() -> None:
    ledger = [acknowledged(1), acknowledged(2)]
    assert broken(ledger, status(1, 2) + states((1, 1), (2, 2))) == []
    # An older message, or a copy, is counted and moves nothing.
    assert broken(ledger, status(2, 1, 2) + states((2, 1), (2, 2), (2, 3))) == []


def test_an_acknowledged_message_without_a_record() -> None:
    records = status(1) + states((1, 1))
    (line,) = broken([acknowledged(1), acknowledged(2, "broker")], records)
    assert f"1 acknowledged messages (first: {VEHICLE} 2)" in line
    assert broken([acknowledged(1), acknowledged(2, "broker")], records, SAVED) == []
    assert broken([acknowledged(1), acknowledged(2, "gateway")], records, SAVED) != []


def test_a_record_that_its_twin_has_not_or_has_twice() -> None:
    assert "no twin" in broken([], status(1))[0]
    assert "counts 1 records of 2" in broken([], status(1, 2) + states((2, 1)))[0]
    assert "counts 3 records of 2" in broken([], status(1, 2) + states((1, 2), (2, 3)))[0]
    assert "ends at (1, 1)" in broken([], status(1, 2) + states((1, 2)))[0]


def test_a_twin_that_goes_back() -> None:
    (line,) = broken([], status(1, 3, 2) + states((1, 1), (3, 2), (2, 3)))[-1:]
    assert "went back from (1, 3) to (1, 2)" in line


def test_a_state_is_there_twice_only_when_the_job_was_killed() -> None:
    records = status(1, 2) + states((1, 1), (2, 2), (1, 1), (2, 2))
    assert broken([], records, twin_killed=True) == []
    assert "counted 2 records, then 1" in broken([], records)[0]
