"""Waits until the twin has taken every good record of vehicle.status; it changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from twin import records
from twin.config import TwinConfig


def taken_and_due(session: SparkSession, config: TwinConfig) -> tuple[int, int]:
    """Return how many messages the twins have counted and how many good records there are."""
    counted = records.state(session, config).groupBy("vehicle_id").agg(F.max("messages").alias("m"))
    due = records.status(session, config).where("reason is null").agg(F.count("*").alias("n"))
    row = due.crossJoin(counted.agg(F.coalesce(F.sum("m"), F.lit(0)).alias("t"))).head()
    assert row is not None
    return int(row["t"]), int(row["n"])


def await_applied(
    session: SparkSession, config: TwinConfig, alive: Callable[[], None], pause_s: float = 0.2
) -> str | None:
    """Wait until all is applied; None then, else a line that says how many records the twin has not taken."""
    deadline = time.monotonic() + config.drain_timeout_s
    while True:
        taken, due = taken_and_due(session, config)
        if taken >= due:
            return None
        alive()
        if time.monotonic() >= deadline:
            return f"the twin has taken {taken} of {due} good records after {config.drain_timeout_s:g} s"
        time.sleep(pause_s)
