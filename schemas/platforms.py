"""How topics and records stand in the platforms beside Kafka: what gateways write, and consumers read.

Redis: a topic is so many streams, `TOPIC:0` and so on; the key `TOPIC:partitions` has their number. An entry's fields are
`k` (the key), `v` (the payload) and each header by its name. Pulsar: a partitioned topic, with the key for a partition key
and headers for properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

# Of Pulsar, as installed.
PULSAR_NAMESPACE: Final = "public/default"
KEY: Final = b"k"
VALUE: Final = b"v"


def stream(topic: str, partition: int) -> str:
    """Return the key of a topic's stream."""
    return f"{topic}:{partition}"


def partitions_key(topic: str) -> str:
    """Return the key that says how many streams a topic has."""
    return f"{topic}:partitions"


def partition_of(key: bytes, partitions: int) -> int:
    """Return the stream of a record: those of one key are in one, in their order."""
    return crc32(key) % partitions


def entry_of(key: bytes, value: bytes, headers: Iterable[tuple[str, bytes]]) -> list[bytes]:
    """Return a record's fields and values in turn."""
    return [KEY, key, VALUE, value, *(part for name, said in headers for part in (name.encode(), said))]


def record_of(entry: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return an entry's fields, and values in turn, by field."""
    return dict(zip(entry[::2], entry[1::2], strict=True))
