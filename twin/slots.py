"""Whether a cluster has room for the tasks that a twin has at once; Spark itself ends the query that finds too few."""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql import SparkSession

from schemas.errors import Refusal
from twin import job
from twin.config import TwinConfig
from twin.session import REGISTERED_S

_LOOK_S: Final = 0.2


def check_slots(session: SparkSession, config: TwinConfig) -> None:
    """Return once the cluster's executors have the slots that the twin needs; Refusal when they have not in REGISTERED_S."""
    if config.local or config.trigger != "realtime":
        return
    needed = job.slots(config)
    until_s = time.monotonic() + REGISTERED_S
    # Of a cluster this is how many cores its executors have; Spark says 2 while there are none.
    while (found := session.sparkContext.defaultParallelism) < needed:
        if time.monotonic() > until_s:
            raise Refusal(
                f"spark_master {config.spark_master}: {found} slots are free for this application, {needed} are needed:"
                f" partitions of vehicle.status ({config.topic_partitions}), the warm-up (1), and shuffle_partitions"
                f" ({job.slots(config) - config.topic_partitions - 1})"
            )
        time.sleep(_LOOK_S)  # Spark tells no Python program of an executor that has come
