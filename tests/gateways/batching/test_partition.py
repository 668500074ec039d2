"""Kafka's own hashes: the values are those of `UtilsTest.testMurmur2` in Apache Kafka."""

from __future__ import annotations

import pytest

from gateways.batching.partition import murmur2, partitioner


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_javas_clients(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_a_partition_is_one_of_those_there() -> None:
    partition_of = partitioner(7)
    assert {partition_of(b"%d" % n) for n in range(200)} == set(range(7))
