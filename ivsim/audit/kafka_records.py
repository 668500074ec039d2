"""Which records of vehicle.status may enter the twin, and what each message and each vehicle's twin has in Kafka."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ivsim.audit.due import Key

KNOWN_FORMATS: Final = frozenset({b"json", b"protobuf", b"flatbuffers", b"avro", b"msgpack", b"small"})
NAMELESS_FORMATS: Final = {b"small"}
MAX_PAYLOAD_BYTES: Final = 1_048_576
MAX_SEQUENCE: Final = 2**53
_REQUIRED: Final = ("format", "protocol", "mode", "epoch", "sequence", "received_at_ns")
_HEADERS: Final = (*_REQUIRED, "sampled_at_ns")
_NAME: Final = re.compile(rb"[A-Za-z0-9_-]{1,32}")
_PRINTABLE: Final = re.compile(rb"[ -~]{0,64}")
# Blanks and control characters around a number are no part of it; a record with the latter is refused, under its name.
_INTEGER: Final = re.compile(rb"[\x00-\x20\x7f]*([+-]?[0-9]+)[\x00-\x20\x7f]*")

Record = Mapping[str, Any]  # a row of kafka_records.parquet
Order = tuple[int, int]  # epoch, sequence


@dataclass
class Copies:
    """The records of one message that may enter the twin: how many, and the first by Kafka's stamp."""

    count: int = 0
    first: tuple[int, int, int] = (0, 0, 0)  # appended_at_ns, partition, offset
    received_at_ns: int = 0

    def add(self, record: Record, received_at_ns: int) -> None:
        place = record["appended_at_ns"], record["partition"], record["offset"]
        if self.count == 0 or place < self.first:
            self.first, self.received_at_ns = place, received_at_ns
        self.count += 1


@dataclass
class Kafka:
    """What Kafka held of a run.

    Attributes:
        copies: of each message with a record that may enter the twin.
        rejected: the reason, the first in the alphabet, of messages with records that may not.
        rejected_records: how many of those there are, readable name or not.
        states: of each vehicle, (epoch, sequence) and append stamp of every update of its twin.
        twin_updates: how many records twin.state has.
    """

    copies: dict[Key, Copies] = field(default_factory=dict)
    rejected: dict[Key, str] = field(default_factory=dict)
    rejected_records: int = 0
    states: dict[str, list[tuple[Order, int]]] = field(default_factory=lambda: defaultdict(list))
    twin_updates: int = 0

    def holds(self, key: Key) -> bool:
        """Say whether Kafka has any record of the message."""
        return key in self.copies or key in self.rejected


def integer(text: bytes | None) -> int | None:
    """Return a header's decimal integer, blanks and control characters around it allowed, if it fits 64 bits; else None."""
    found = None if text is None else _INTEGER.fullmatch(text)
    value = None if found is None else int(found[1])
    return value if value is not None and -(2**63) <= value < 2**63 else None


def rejection(  # noqa: C901, PLR0911 - a rule a line
    record: Record, tolerance_ns: int, formats: frozenset[bytes] = KNOWN_FORMATS
) -> str | None:
    """Return why a record of vehicle.status may not enter the twin, None when it may; the first rule that holds."""
    key, header = record["key"], {name: record[f"header_{name}"] for name in _HEADERS}
    if key is None or not _NAME.fullmatch(key):
        return "no_key"
    if (record["value_bytes"] or 0) > MAX_PAYLOAD_BYTES:
        return "payload_too_large"
    if not record["value_bytes"]:
        return "no_payload"
    if any(header[name] is None for name in _REQUIRED):
        return "header_missing"
    if any(text is not None and not _PRINTABLE.fullmatch(text) for text in header.values()):
        return "bad_header"
    if header["format"] not in formats:
        return "unknown_format"
    epoch, sequence = integer(header["epoch"]), integer(header["sequence"])
    if epoch is None or not 0 <= epoch <= MAX_SEQUENCE:
        return "bad_epoch"
    if sequence is None or not 1 <= sequence <= MAX_SEQUENCE:
        return "bad_sequence"
    received, sampled = integer(header["received_at_ns"]), integer(header["sampled_at_ns"])
    if received is None or received <= 0:
        return "bad_stamp"
    if header["sampled_at_ns"] and (sampled is None or sampled <= 0):
        return "bad_stamp"
    if max(received, sampled or 0) > record["appended_at_ns"] + tolerance_ns:
        return "stamp_in_future"
    if header["format"] not in NAMELESS_FORMATS and not record["value_has_key"]:
        return "other_vehicle"
    return None


def held(records: Iterable[Record], tolerance_ns: int, format: str | None = None) -> Kafka:  # noqa: A002
    """Return what the records of both topics come to.

    Args:
        records: of both topics.
        tolerance_ns: how far stamps may be ahead of Kafka's.
        format: the run's own; one of somebody else's package is known in that run alone.
    """
    formats = KNOWN_FORMATS if format is None else KNOWN_FORMATS | {format.encode()}
    kafka = Kafka()
    for record in records:
        if record["topic"] == "twin.state":
            _take_state(kafka, record)
        else:
            _take_status(kafka, record, tolerance_ns, formats)
    return kafka


def _take_state(kafka: Kafka, record: Record) -> None:
    kafka.twin_updates += 1
    epoch, sequence = integer(record["header_epoch"]), integer(record["header_sequence"])
    if record["key"] is not None and epoch is not None and sequence is not None:
        order = epoch, sequence
        kafka.states[record["key"].decode(errors="replace")].append((order, record["appended_at_ns"]))


def _take_status(kafka: Kafka, record: Record, tolerance_ns: int, formats: frozenset[bytes]) -> None:
    reason = rejection(record, tolerance_ns, formats)
    epoch, sequence = integer(record["header_epoch"]), integer(record["header_sequence"])
    kafka.rejected_records += reason is not None
    if record["key"] is None or epoch is None or sequence is None:
        return
    key = Key(record["key"].decode(errors="replace"), epoch, sequence)
    if reason is None:
        received = integer(record["header_received_at_ns"])
        assert received is not None
        kafka.copies.setdefault(key, Copies()).add(record, received)
    else:
        kafka.rejected[key] = min(reason, kafka.rejected.get(key, reason))


class Applied:
    """When one vehicle's twin first contained a message: its states by stamp, and what is still to come behind each."""

    def __init__(self, states: list[tuple[Order, int]]) -> None:
        self._states = sorted((at, order) for order, at in states)
        self._newest_from: list[Order] = []
        newest: Order = (-1, -1)
        for _, order in reversed(self._states):
            newest = max(newest, order)
            self._newest_from.append(newest)
        self._newest_from.reverse()

    def first(self, order: Order, appended_at_ns: int) -> int | None:
        """Return the stamp of the first state at least as new as the message and not older than its record."""
        low, high = 0, len(self._states)
        while low < high:
            middle = (low + high) // 2
            if self._states[middle][0] < appended_at_ns:
                low = middle + 1
            else:
                high = middle
        for index in range(low, len(self._states)):
            if self._newest_from[index] < order:
                return None
            at, newest = self._states[index]
            if newest >= order:
                return at
        return None
