"""Which partition Kafka's clients choose for a key, so that batches can be counted by partition before they leave."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORD: Final = 0xFFFFFFFF
# Keys are vehicles: a fleet's are remembered.
_REMEMBERED: Final = 100_000


def murmur2(key: bytes) -> int:
    """Return the hash of a key: MurmurHash2 by A. Appleby with the seed of Kafka's `Utils.murmur2`, unsigned."""
    value = _SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _WORD
        word = (word ^ word >> 24) * _M & _WORD
        value = value * _M & _WORD ^ word
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    value = (value ^ value >> 13) * _M & _WORD
    return value ^ value >> 15


def partitioner(partitions: int) -> Callable[[bytes], int]:
    """Return the choice of Java's clients, and of librdkafka's `murmur2_random`, among so many partitions."""

    @lru_cache(maxsize=_REMEMBERED)
    def partition_of(key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % partitions

    return partition_of
