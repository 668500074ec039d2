"""Which record of vehicle.status may enter a twin, and the reason why another may not: the one text, as SQL.

Spark evaluates it over the records of a stream, DuckDB over those that a result has kept. It keeps to what both read
alike; what they spell differently, a number's text and whether a payload names its vehicle, they say themselves.
"""

from __future__ import annotations

from typing import Final, Protocol

from schemas.topics import HEADERS

# Above this a sequence or an epoch is noise: one message a nanosecond for three months.
MAX_SEQUENCE: Final = 2**53
# Formats whose payload names its vehicle as the 17 ASCII characters; `small` names nothing.
NAMELESS_FORMATS: Final = ("small",)
FORMAT_NAMES: Final = ("json", "protobuf", "flatbuffers", "avro", "msgpack", "small")
WORDS: Final = ("format", "protocol", "mode")
NUMBERS: Final = tuple(name for name in HEADERS if name not in WORDS)

# reason -> what it says; also the legend of docs/twin.md and the dead-letter records
REASONS: Final = {
    "no_key": "the record has no key, or one that is no vehicle's name",
    "payload_too_large": "the value is longer than max_payload_bytes",
    "no_payload": "the record has no value",
    "header_missing": "one of the headers format, protocol, mode, epoch, sequence, received_at_ns is missing",
    "bad_header": "a header is longer than 64 characters or not printable ASCII",
    "unknown_format": "the header format names no format",
    "bad_epoch": "the header epoch is no integer from 0 to 2^53",
    "bad_sequence": "the header sequence is no integer from 1 to 2^53",
    "bad_stamp": "a stamp is no positive integer",
    "stamp_in_future": "a stamp is later than Kafka's own by more than the tolerance",
    "other_vehicle": "the payload names another vehicle than the record's key",
}


class Terms(Protocol):
    """What a run allows its records; `ledger.config.LedgerConfig` has more."""

    @property
    def more_formats(self) -> tuple[str, ...]: ...
    @property
    def max_payload_bytes(self) -> int: ...
    @property
    def future_tolerance_s(self) -> float: ...


def reason(terms: Terms, names_vehicle: str) -> str:
    """Return the word of REASONS for a record, null where it may enter the twin.

    The record's columns: vehicle_id (its key), payload_bytes, appended_at_ns, `h_` and its name for each header's text, and
    each of NUMBERS as an integer.

    Args:
        terms: of the run.
        names_vehicle: SQL: whether the payload has the record's key in it.
    """
    required = [name for name in HEADERS if name != "sampled_at_ns"]
    late = f"appended_at_ns + {int(terms.future_tolerance_s * 1e9)}"
    formats = literals(*FORMAT_NAMES, *terms.more_formats)
    rules = {
        "no_key": (
            "vehicle_id is null or length(vehicle_id) not between 1 and 32"
            " or regexp_like(vehicle_id, '[^A-Za-z0-9_-]')"
        ),
        "payload_too_large": f"payload_bytes > {terms.max_payload_bytes}",
        "no_payload": "payload_bytes is null or payload_bytes = 0",
        "header_missing": " or ".join(f"h_{name} is null" for name in required),
        "bad_header": " or ".join(
            f"coalesce(length(h_{name}) > 64 or regexp_like(h_{name}, '[^ -~]'), false)" for name in HEADERS
        ),
        "unknown_format": f"h_format not in ({formats})",
        "bad_epoch": f"not coalesce(epoch between 0 and {MAX_SEQUENCE}, false)",
        "bad_sequence": f"not coalesce(sequence between 1 and {MAX_SEQUENCE}, false)",
        "bad_stamp": (
            "received_at_ns is null or received_at_ns <= 0"
            " or coalesce(h_sampled_at_ns <> '' and (sampled_at_ns is null or sampled_at_ns <= 0), false)"
        ),
        "stamp_in_future": f"received_at_ns > {late} or coalesce(sampled_at_ns > {late}, false)",
        # Every format but `small` has the name as plain bytes; nothing is decoded here.
        "other_vehicle": f"h_format not in ({literals(*NAMELESS_FORMATS)}) and not {names_vehicle}",
    }
    return f"case {' '.join(f'when {rule} then {literals(name)}' for name, rule in rules.items())} end"


def literals(*words: str) -> str:
    """Return SQL: the words, names without quotes or backslashes, as string literals with commas between them."""
    assert not any({"'", "\\"} & set(word) for word in words), words
    return ", ".join(f"'{word}'" for word in words)
