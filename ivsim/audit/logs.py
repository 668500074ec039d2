"""The binary logs of a run's processes, read by their layout: what vehicles did, gateways took, the capture counted.

A record that a kill cut short is the last one of its file, and left out.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ivsim.audit.due import Key, vehicle_name
from ivsim.audit.result import BadResult

# kind, reason, words, vehicle, epoch, size, sequence, at_ns; little-endian
_EVENT: Final = struct.Struct("<BBHIIIqq")
(EMITTED, ACKNOWLEDGED, UNSENT, REFUSED, RECEIVED, CONNECTING, CONNECTED, DISCONNECTED, BUFFERED, CONNECT_FAILED,
 STARTED, UNANSWERED, POSTPONED, WORDS, CONNECT_DUE) = range(1, 16)  # fmt: skip
# A record of the kind WORDS: number of the words, and up to 24 bytes of them in UTF-8 behind those before.
_WORDS: Final = struct.Struct("<BBHI24s")
REASONS: Final = (
    "none", "dropped_oldest", "dropped_newest", "left_at_end", "sender_ended", "refused_by_peer", "no_answer",
    "agent_lost", "beyond_peers_limit",
)  # fmt: skip
# vehicle id (ASCII, filled with zeros), epoch, sequence, received_at_ns
_TAKEN: Final = struct.Struct("<32sIqq")
_WIRE_HEAD: Final = b"ivsim-wire-counts-1\n"
WIRE_COUNTS: Final = (
    "packets", "ip_bytes", "link_bytes", "ip_header_bytes", "tcp_packets", "tcp_header_bytes", "tcp_payload_bytes",
    "tcp_pure_ack_packets", "tcp_pure_ack_bytes", "tcp_control_packets", "tcp_control_bytes", "tcp_keep_alive_packets",
    "tcp_retransmitted_packets", "tcp_retransmitted_bytes", "tcp_retransmitted_payload_bytes", "udp_packets",
    "udp_payload_bytes", "other_packets", "other_bytes", "super_frames",
)  # fmt: skip
_WIRE: Final = struct.Struct(f"<iII{len(WIRE_COUNTS)}q")
WAYS: Final = ("uplink", "downlink", "aside")


class Event(NamedTuple):
    """One step of a vehicle with a message or a connection."""

    kind: int
    reason: int
    words: int
    vehicle: int
    epoch: int
    size: int
    sequence: int
    at_ns: int

    @property
    def key(self) -> Key:
        return Key(vehicle_name(self.vehicle), self.epoch, self.sequence)


@dataclass
class Steps:
    """The first step of each kind of one message: when, how large, why; and the first refusal, for good or for now."""

    first: dict[int, Event] = field(default_factory=dict)
    refusal: Event | None = None

    def at(self, kind: int) -> int | None:
        """Return the stamp of the first step of this kind."""
        event = self.first.get(kind)
        return None if event is None else event.at_ns


_OF_MESSAGES: Final = {EMITTED, ACKNOWLEDGED, UNSENT, REFUSED, RECEIVED, BUFFERED, UNANSWERED, POSTPONED}


class WireKey(NamedTuple):
    """A cell of the capture's counts; second -1 is before the start, `vehicle` 0 nobody."""

    second: int
    vehicle: int
    direction: str


WireCounts = dict[WireKey, dict[str, int]]


def read_events(*paths: Path) -> list[Event]:
    """Return the emission logs, one behind another, each in the order of writing; empty when no sender ever began.

    Each log counts its words from 1: those of a log follow the last number of the one before.
    """
    events: list[Event] = []
    last = 0
    for path in paths:
        own = [Event(*row) for row in _records(path, _EVENT)]
        events += [one._replace(words=one.words + last) if one.words and last else one for one in own]
        last += max((one.words for one in own), default=0)
    return events


def read_words(*paths: Path) -> dict[int, str]:
    """Return what the numbers in `Event.words` stand for."""
    parts: dict[int, bytes] = {}
    last = 0
    for path in paths:
        highest = 0
        for kind, _, number, _, part in _records(path, _WORDS):
            highest = max(highest, number)
            if kind == WORDS:
                parts[number + last] = parts.get(number + last, b"") + part.rstrip(b"\0")
        last += highest
    return {number: text.decode(errors="replace") for number, text in parts.items()}


def steps_of(events: Iterable[Event]) -> dict[Key, Steps]:
    """Return the steps of each message that the log names."""
    found: dict[Key, Steps] = defaultdict(Steps)
    for event in events:
        if event.kind not in _OF_MESSAGES:
            continue
        steps = found[event.key]
        steps.first.setdefault(event.kind, event)
        if steps.refusal is None and event.kind in {REFUSED, POSTPONED}:
            steps.refusal = event
    return found


def read_taken(path: Path) -> list[tuple[Key, int]]:
    """Return the messages that a gateway took and when, in the order of its log."""
    rows = _records(path, _TAKEN)
    return [
        (Key(name.rstrip(b"\0").decode("ascii"), epoch, sequence), at) for name, epoch, sequence, at in rows
    ]


def read_wire(path: Path) -> WireCounts | None:
    """Return the capture's counts, summed by second, vehicle and direction; None without a capture."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if not data.startswith(_WIRE_HEAD):
        raise BadResult(f"{path}: no log of wire counts")
    found: WireCounts = {}
    body = memoryview(data)[len(_WIRE_HEAD) :]
    for second, vehicle, way, *counts in _WIRE.iter_unpack(body[: len(body) // _WIRE.size * _WIRE.size]):
        if way >= len(WAYS):
            raise BadResult(f"{path}: direction {way} in a record")
        cell = found.setdefault(WireKey(second, vehicle, WAYS[way]), dict.fromkeys(WIRE_COUNTS, 0))
        for name, count in zip(WIRE_COUNTS, counts, strict=True):
            cell[name] += count
    return found


def _records(path: Path, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
    data = memoryview(path.read_bytes() if path.is_file() else b"")
    return layout.iter_unpack(data[: len(data) // layout.size * layout.size])
