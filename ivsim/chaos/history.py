"""What a run's history must show after faults: the ledger's rows held against Kafka's records; pure.

The ledger says of each message where it went. Here the records themselves are read once more, by other code: whether an
acknowledged message is among them, whether each twin took every record once, and whether a twin went back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ivsim.audit.kafka_records import integer, rejection
from ivsim.chaos.promises import Message, Promise, message_of

Row = Mapping[str, Any]


class _State(NamedTuple):
    offset: int
    order: tuple[int, int]  # epoch, sequence
    messages: int


def broken_history(
    ledger: Iterable[Row], records: Iterable[Row], promise: Promise, *, twin_killed: bool, tolerance_ns: int
) -> list[str]:
    """Return what the history shows that must not be, one line each.

    Args:
        ledger: rows of ledger.parquet.
        records: rows of kafka_records.parquet.
        promise: which acknowledged messages may be lost.
        twin_killed: the Spark job was killed: it goes on from its last commit, and what it wrote since then is in
            twin.state a second time (docs/twin.md). Only then a state may be there twice.
        tolerance_ns: how far a record's stamps may be ahead of Kafka's, of the run.
    """
    taken: dict[Message, int] = defaultdict(int)
    states: dict[str, list[_State]] = defaultdict(list)
    for record in records:
        order = integer(record["header_epoch"]), integer(record["header_sequence"])
        if record["key"] is None or order[0] is None or order[1] is None:
            continue
        vehicle = record["key"].decode(errors="replace")
        if record["topic"] == "twin.state":
            messages = integer(record["header_messages"])
            if messages is not None:
                states[vehicle].append(_State(record["offset"], (order[0], order[1]), messages))
        elif rejection(record, tolerance_ns) is None:
            taken[vehicle, order[0], order[1]] += 1
    return [
        *_acknowledged(ledger, taken, promise),
        *_counted(taken, states),
        *_back(states, twin_killed=twin_killed),
    ]


def _acknowledged(ledger: Iterable[Row], taken: Mapping[Message, int], promise: Promise) -> list[str]:
    missing = [
        row
        for row in ledger
        if row["acknowledged_at_ns"] is not None and message_of(row) not in taken and not promise.excuses(row)
    ]
    if not missing:
        return []
    first = f"{missing[0]['vehicle_id']} {missing[0]['sequence']}"
    return [
        f"history: {len(missing)} acknowledged messages (first: {first}) have no record in vehicle.status"
    ]


def _counted(taken: Mapping[Message, int], states: Mapping[str, list[_State]]) -> list[str]:
    """Each record is in its twin's counter once: none twice, none passed over; the newest is the twin's."""
    records: dict[str, int] = defaultdict(int)
    newest: dict[str, tuple[int, int]] = {}
    for (vehicle, *order), count in taken.items():
        records[vehicle] += count
        newest[vehicle] = max(newest.get(vehicle, (-1, -1)), (order[0], order[1]))
    broken = []
    for vehicle, count in sorted(records.items()):
        last = max(states.get(vehicle, ()), default=None)
        if last is None:
            broken.append(f"history: {vehicle} has {count} records and no twin")
        elif last.messages != count:
            broken.append(f"history: {vehicle}'s twin counts {last.messages} records of {count}")
        elif last.order != newest[vehicle]:
            broken.append(f"history: {vehicle}'s twin ends at {last.order}, its records at {newest[vehicle]}")
    return broken[:3]


def _back(states: Mapping[str, list[_State]], *, twin_killed: bool) -> list[str]:
    """A state that is new is never older than one before it; one that is there again is a repeat of the kill."""
    broken = []
    for vehicle, written in sorted(states.items()):
        counted, order = 0, (-1, -1)
        for state in sorted(written):
            if state.messages > counted:
                if state.order < order:
                    broken.append(f"history: {vehicle}'s twin went back from {order} to {state.order}")
                    break
                counted, order = state.messages, state.order
            elif not twin_killed:
                broken.append(f"history: {vehicle}'s twin counted {counted} records, then {state.messages}")
                break
    return broken[:3]
