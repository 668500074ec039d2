"""The binary logs of a run's processes, read by their layout: what vehicles did, gateways took, the capture counted.

A record that a kill cut short is the last one of its file, and left out. Logs are read in blocks, and of a share's vehicles alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ivsim.audit.due import Key, vehicle_name
from ivsim.audit.result import BadResult
from ivsim.audit.shares import Share

_EVENT: Final = np.dtype(
    [("kind", "u1"), ("reason", "u1"), ("words", "<u2"), ("vehicle", "<u4"), ("epoch", "<u4"), ("size", "<u4"),
     ("sequence", "<i8"), ("at_ns", "<i8")]
)  # fmt: skip
(EMITTED, ACKNOWLEDGED, UNSENT, REFUSED, RECEIVED, CONNECTING, CONNECTED, DISCONNECTED, BUFFERED, CONNECT_FAILED,
 STARTED, UNANSWERED, POSTPONED, WORDS, CONNECT_DUE) = range(1, 16)  # fmt: skip
# A record of the kind WORDS: number of the words, and up to 24 bytes of them in UTF-8 behind those before.
_WORDS: Final = np.dtype(
    [("kind", "u1"), ("reason", "u1"), ("words", "<u2"), ("vehicle", "<u4"), ("part", "S24")]
)
REASONS: Final = (
    "none", "dropped_oldest", "dropped_newest", "left_at_end", "sender_ended", "refused_by_peer", "no_answer",
    "agent_lost", "beyond_peers_limit", "share_missing",
)  # fmt: skip
# The name in ASCII, filled with zeros.
_TAKEN: Final = np.dtype([("vehicle_id", "S32"), ("epoch", "<u4"), ("sequence", "<i8"), ("at_ns", "<i8")])
_WIRE_HEAD: Final = b"ivsim-wire-counts-1\n"
WIRE_COUNTS: Final = (
    "packets", "ip_bytes", "link_bytes", "ip_header_bytes", "tcp_packets", "tcp_header_bytes", "tcp_payload_bytes",
    "tcp_pure_ack_packets", "tcp_pure_ack_bytes", "tcp_control_packets", "tcp_control_bytes", "tcp_keep_alive_packets",
    "tcp_retransmitted_packets", "tcp_retransmitted_bytes", "tcp_retransmitted_payload_bytes", "udp_packets",
    "udp_payload_bytes", "other_packets", "other_bytes", "super_frames",
)  # fmt: skip
_WIRE: Final = np.dtype(
    [("second", "<i4"), ("vehicle", "<u4"), ("way", "<u4"), ("counts", "<i8", len(WIRE_COUNTS))]
)
WAYS: Final = ("uplink", "downlink", "aside")
_BLOCK: Final = 65_536  # records


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


def read_events(
    *paths: Path, share: Share | None = None, kinds: Collection[int] | None = None
) -> list[Event]:
    """Return the emission logs, one behind another, each in the order of writing; empty when no sender ever began.

    Each log counts its words from 1: those of a log follow the last number of the one before.

    Args:
        paths: of the logs.
        share: whose events; None for all.
        kinds: which; None for all.
    """
    events: list[Event] = []
    last = 0
    for path in paths:
        highest = 0
        for block in _blocks(path, _EVENT):
            highest = max(highest, int(block["words"].max()))
            wanted = np.full(len(block), True) if share is None else share.has(block["vehicle"])
            if kinds is not None:
                wanted &= np.isin(block["kind"], list(kinds))
            own = [Event(*row) for row in block[wanted].tolist()]
            events += [one._replace(words=one.words + last) if one.words and last else one for one in own]
        last += highest
    return events


def read_words(*paths: Path) -> dict[int, str]:
    """Return what the numbers in `Event.words` stand for."""
    parts: dict[int, bytes] = {}
    last = 0
    for path in paths:
        highest = 0
        for block in _blocks(path, _WORDS):
            highest = max(highest, int(block["words"].max()))
            for _, _, number, _, part in block[block["kind"] == WORDS].tolist():
                parts[number + last] = parts.get(number + last, b"") + part
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


def read_taken(path: Path, share: Share | None = None) -> Iterator[tuple[Key, int]]:
    """Yield the messages that a gateway took and when, in the order of its log; of a share, None: of all."""
    for block in _blocks(path, _TAKEN):
        own = block if share is None else block[share.has_named(block["vehicle_id"])]
        for name, epoch, sequence, at in own.tolist():
            yield Key(name.decode("ascii"), epoch, sequence), at


def read_wire(path: Path, share: Share | None = None) -> WireCounts | None:
    """Return the capture's counts, summed by second, vehicle and direction; of a share, None: of all. None without a capture."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(len(_WIRE_HEAD)) != _WIRE_HEAD:
            raise BadResult(f"{path}: no log of wire counts")
    found: WireCounts = {}
    for block in _blocks(path, _WIRE, len(_WIRE_HEAD)):
        if block["way"].max() >= len(WAYS):
            raise BadResult(f"{path}: direction {block['way'].max()} in a record")
        own = block if share is None else block[share.has(block["vehicle"])]
        cells = own[["second", "vehicle", "way"]].tolist()
        for (second, vehicle, way), counts in zip(cells, own["counts"].tolist(), strict=True):
            cell = found.setdefault(WireKey(second, vehicle, WAYS[way]), dict.fromkeys(WIRE_COUNTS, 0))
            for name, count in zip(WIRE_COUNTS, counts, strict=True):
                cell[name] += count
    return found


def _blocks(path: Path, layout: np.dtype[Any], begin: int = 0) -> Iterator[npt.NDArray[Any]]:
    """Yield the whole records of a file behind its head, some at a time, and none of a file that is missing."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(begin)
        while len(block := np.fromfile(file, layout, _BLOCK)):
            yield block
