"""The fold inside Spark, found in its catalog, against its definition in many random orders."""

from __future__ import annotations

import random

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.twin.reference import fold
from twin.session import FOLD

pytestmark = pytest.mark.spark


def twin() -> Column:
    return F.expr(f"{FOLD}(epoch, sequence, received_at_ns, null, 0, 0, null, head, payload)").alias("t")


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
    twins = frame.repartition(2).groupBy("vehicle").agg(twin())
    found = {row["vehicle"]: row["t"] for row in twins.collect()}
    for name, messages in vehicles.items():
        expected = fold(messages)
        epoch, sequence = expected.pop("epoch"), expected.pop("sequence")
        counters = found[name].asDict()
        assert counters["head"] == f"{epoch}/{sequence}"
        assert bytes(counters["payload"]) == f"{name}/{epoch}/{sequence}".encode()
        assert {key: counters[key] for key in expected} == expected


def test_many_gaps_and_huge_sequences(spark: SparkSession) -> None:
    odd = [(1, sequence, 5) for sequence in range(1, 2_000, 2)] + [(3, 2**53, 6), (3, 2**53, 6)]
    frame = spark.createDataFrame(
        [(e, s, at, "", bytearray(b"x")) for e, s, at in odd],
        "epoch bigint, sequence bigint, received_at_ns bigint, head string, payload binary",
    )
    row = frame.agg(twin()).head()
    assert row is not None
    expected = fold(odd)
    assert (row["t"]["gaps"], row["t"]["duplicates"]) == (expected["gaps"], 1)
    assert row["t"]["payload_bytes"] == 1_001


def test_a_call_with_other_arguments_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="twin_fold takes 9 arguments, not 2"):
        spark.sql(f"select {FOLD}(1, 2)").collect()
