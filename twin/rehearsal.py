"""Takes a query like the twin's across batch boundaries before the twin's own come: a cold JVM pauses twice as long.

A boundary of a real-time batch stops its tasks, commits their state, plans the next batch and starts it. The
rehearsal does that each second on records that are none, beside the twin query, while that one is warmed up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from twin import job, source
from twin.checkpoint_files import files_of
from twin.config import TwinConfig
from twin.session import held

BATCHES: Final = 3
LONGEST_S: Final = 30.0
NAME: Final = "rehearsal"
_LEAST: Final = "spark.sql.streaming.realTimeMode.minBatchDuration"
_BATCH_MS: Final = 1_000
_LOOK_S: Final = 0.05


def start(session: SparkSession, config: TwinConfig) -> StreamingQuery | None:
    """Start the rehearsal; None where it is not wanted, or would take slots that the twin needs."""
    if config.trigger != "realtime" or not config.rehearse or not _has_slots(config):
        return None
    files_of(session, config.checkpoint).remove(NAME)  # of a start that was killed
    # Nothing passes, and Spark cannot know it: it would take the whole query away.
    nothing = source.read_stream(session, config, source.warm_topic(config)).where(F.col("partition") < 0)
    with held(session, {_LEAST: str(_BATCH_MS)}):
        return (
            job.writer(job.state_records(nothing, config), config, NAME)
            .trigger(realTime=f"{_BATCH_MS} milliseconds")
            .start()
        )


def finish(
    session: SparkSession, query: StreamingQuery | None, config: TwinConfig, alive: Callable[[], None]
) -> int:
    """Stop the rehearsal once BATCHES batches have ended, and remove what it kept; return how many had.

    Fewer, after LONGEST_S or when it died: the twin does without. `alive` raises when one of its own has died.
    """
    if query is None:
        return 0
    deadline_s = time.monotonic() + LONGEST_S
    while (ended := _ended(query)) < BATCHES and query.isActive and time.monotonic() < deadline_s:
        alive()
        time.sleep(_LOOK_S)
    query.stop()
    files_of(session, config.checkpoint).remove(NAME)
    return ended


def _ended(query: StreamingQuery) -> int:
    last = query.lastProgress
    return 0 if last is None else int(last["batchId"]) + 1


def _has_slots(config: TwinConfig) -> bool:
    """Return whether this machine's Spark has room for the tasks of all queries, and twice for the rehearsal's."""
    found = re.fullmatch(r"local\[([0-9]+)\]", config.spark_master)
    own = 1 + config.shuffle_partitions
    return found is not None and int(found[1]) >= job.slots(config) + 2 * own
