"""From a record of `twin.state` to a twin's state, or the reason why it is none; keeps nothing."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.topics import HEADERS

MAX_INTEGER: Final = 2**53
MAX_STAMP_NS: Final = 2**63  # in the year 2262
_NAME: Final = re.compile(rb"[A-Za-z0-9_-]{1,32}")
_INTEGER: Final = re.compile(rb"[0-9]{1,19}")
_COUNTERS: Final = ("messages", "duplicates", "gaps", "given_up")
_STAMPS: Final = ("received_at_ns", "first_received_at_ns", "last_received_at_ns")
_REQUIRED: Final = frozenset({*HEADERS, *_COUNTERS, *_STAMPS} - {"sampled_at_ns"})
_NS_PER_MS: Final = 1_000_000

# reason -> what it says; the legend of /metrics and docs/twin-service.md
REASONS: Final = {
    "no_key": "the record has no key, or one that is no vehicle's name",
    "payload_too_large": "the value is longer than max_payload_bytes",
    "header_missing": "a header of a status, or a counter of the twin, is missing",
    "bad_header": "protocol or mode is no short ASCII word",
    "unknown_format": "the header format names no format",
    "bad_epoch": "the header epoch is no integer from 0 to 2^53",
    "bad_sequence": "the header sequence is no integer from 1 to 2^53",
    "bad_stamp": "a stamp, or Kafka's own, is no positive integer of nanoseconds below 2^63",
    "bad_counter": "a counter is no integer from 0 to 2^53",
    "stamp_in_future": "a stamp is later than Kafka's own by more than the tolerance",
    "bad_payload": "the payload's header cannot be read in its format",
    "other_vehicle": "the payload names another vehicle than the record's key",
    "other_message": "the payload's epoch or sequence contradict the headers",
    "too_many_vehicles": "one vehicle more than max_vehicles",
    "bad_figure": "a record of run.metrics, run.link or run.emissions is no JSON object of a vehicle",
}


class BadRecord(ValueError):  # noqa: N818 - it is named by what it is
    """A record that may not enter the twin; `reason` is a key of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class State(NamedTuple):
    """What one record of `twin.state` says; the payload is decoded by whoever asks."""

    payload: bytes
    format: str
    protocol: str
    mode: str
    epoch: int
    sequence: int
    sampled_at_ns: int | None  # None for formats that carry no time
    received_at_ns: int
    appended_at_ns: int
    messages: int
    duplicates: int
    gaps: int
    given_up: int  # records of which the twin's other counters know nothing
    first_received_at_ns: int
    last_received_at_ns: int

    @property
    def fresh_at_ns(self) -> int:
        """When the reading was taken; of a format without time, when the gateway had it."""
        return self.received_at_ns if self.sampled_at_ns is None else self.sampled_at_ns


def vehicle_of(key: bytes | None) -> str:
    """Return the vehicle that a record's key names."""
    if key is None or not _NAME.fullmatch(key):
        raise BadRecord("no_key")
    return key.decode("ascii")


def state_of(
    vehicle: str,
    value: bytes,
    headers: list[tuple[str, bytes | None]] | None,
    appended_at_ms: int,
    *,
    max_payload_bytes: int,
    future_tolerance_ns: int,
) -> State:
    """Return the state in one record; BadRecord with the first rule that it breaks."""
    if len(value) > max_payload_bytes:
        raise BadRecord("payload_too_large")
    words = {name: text for name, text in headers or () if text is not None}
    if not words.keys() >= _REQUIRED:
        raise BadRecord("header_missing")
    name = _word(words["format"])
    if name not in FORMATS:
        raise BadRecord("unknown_format")
    # Twins of one fleet share a handful of these strings.
    protocol, mode = _word(words["protocol"]), _word(words["mode"])
    epoch = _integer(words["epoch"], "bad_epoch")
    sequence = _integer(words["sequence"], "bad_sequence", 1)
    received, first, last = (_stamp(words[stamp]) for stamp in _STAMPS)
    text = words.get("sampled_at_ns", b"")
    sampled = _stamp(text) if text else None
    appended = appended_at_ms * _NS_PER_MS
    if not 0 < appended < MAX_STAMP_NS:  # a topic that is stamped by its producers says anything
        raise BadRecord("bad_stamp")
    if max(received, last, sampled or 0) > appended + future_tolerance_ns:
        raise BadRecord("stamp_in_future")
    messages, duplicates, gaps, given_up = (_integer(words[counter], "bad_counter") for counter in _COUNTERS)
    _check_payload(vehicle, name, value, epoch, sequence)
    return State(
        value, name, protocol, mode, epoch, sequence, sampled, received, appended,
        messages, duplicates, gaps, given_up, first, last,
    )  # fmt: skip


_WORDS: dict[bytes, str] = {}


def _word(text: bytes) -> str:
    known = _WORDS.get(text)
    if known is not None:
        return known
    if not text or len(text) > 64 or not text.isascii() or not text.decode("ascii").isprintable():
        raise BadRecord("bad_header")
    if len(_WORDS) < 1_000:
        _WORDS[text] = text.decode("ascii")
    return text.decode("ascii")


def _integer(text: bytes, reason: str, low: int = 0) -> int:
    if not _INTEGER.fullmatch(text) or not low <= (number := int(text)) <= MAX_INTEGER:
        raise BadRecord(reason)
    return number


def _stamp(text: bytes) -> int:
    if not _INTEGER.fullmatch(text) or not 0 < (number := int(text)) < MAX_STAMP_NS:
        raise BadRecord("bad_stamp")
    return number


def _check_payload(vehicle: str, name: str, value: bytes, epoch: int, sequence: int) -> None:
    known = FORMATS[name]
    try:
        peek = known.peek(value)
    except PayloadError as error:
        raise BadRecord("bad_payload") from error
    if peek.vehicle_id is not None and peek.vehicle_id != vehicle:
        raise BadRecord("other_vehicle")
    modulus = known.sequence_modulus
    if modulus is not None:
        if peek.sequence % modulus != sequence % modulus:
            raise BadRecord("other_message")
    elif (peek.epoch, peek.sequence) != (epoch, sequence):
        raise BadRecord("other_message")
