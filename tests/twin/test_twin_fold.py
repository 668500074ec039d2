"""The fold (Java, inside Spark) against its definition, in many random orders and splits."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.twin.reference import fold

pytestmark = pytest.mark.spark


def random_messages(rng: random.Random) -> list[tuple[int, int, int]]:
    epochs = rng.sample(range(1, 9), rng.randrange(1, 4))
    top = rng.choice([3, 12, 200])
    numbers = [(rng.choice(epochs), rng.randrange(1, top + 1)) for _ in range(rng.randrange(1, 120))]
    if rng.random() < 0.5:
        numbers.sort()
    return [(epoch, sequence, rng.randrange(1, 10**18)) for epoch, sequence in numbers]


def test_fold_counts_what_a_set_counts(spark: SparkSession) -> None:
    rng = random.Random(7)
    vehicles = {f"v{number}": random_messages(rng) for number in range(300)}
    rows = [
        (name, epoch, sequence, at, f"{epoch}/{sequence}", bytearray(f"{name}/{epoch}/{sequence}".encode()))
        for name, messages in vehicles.items()
        for epoch, sequence, at in messages
    ]
    rng.shuffle(rows)
    frame = spark.createDataFrame(
        rows,
        "vehicle string, epoch bigint, sequence bigint, received_at_ns bigint, head string, payload binary",
    )
    # Two partitions before the shuffle: partial folds are merged.
    twins = (
        frame.repartition(2)
        .groupBy("vehicle")
        .agg(F.expr("twin_fold(epoch, sequence, received_at_ns, null, 0, head, payload)").alias("t"))
    )
    found = {row["vehicle"]: row["t"] for row in twins.collect()}
    for name, messages in vehicles.items():
        expected = fold(messages)
        epoch, sequence = expected.pop("epoch"), expected.pop("sequence")
        twin = found[name].asDict()
        assert twin["head"] == f"{epoch}/{sequence}"
        assert bytes(twin["payload"]) == f"{name}/{epoch}/{sequence}".encode()
        assert {key: twin[key] for key in expected} == expected


def test_many_gaps_and_huge_sequences(spark: SparkSession) -> None:
    odd = [(1, sequence, 5) for sequence in range(1, 2_000, 2)] + [(3, 2**53, 6), (3, 2**53, 6)]
    frame = spark.createDataFrame(
        [(e, s, at, "", bytearray(b"x")) for e, s, at in odd],
        "epoch bigint, sequence bigint, received_at_ns bigint, head string, payload binary",
    )
    row = frame.agg(
        F.expr("twin_fold(epoch, sequence, received_at_ns, null, 0, head, payload)").alias("t")
    ).head()
    assert row is not None
    expected = fold(odd)
    assert (row["t"]["gaps"], row["t"]["duplicates"]) == (expected["gaps"], 1)
    assert row["t"]["payload_bytes"] == 1_001
