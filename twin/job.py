"""The twin query: the newest status of each vehicle and its counters, one query for both triggers."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from schemas.topics import HEADERS
from twin import dead_letters, source
from twin.config import TwinConfig
from twin.session import FOLD

COUNTERS: Final = (
    "messages",
    "duplicates",
    "gaps",
    "given_up",
    "first_received_at_ns",
    "last_received_at_ns",
    "payload_bytes",
    # The twin at its last update but this one: what an update adds is the difference.
    "sampled_before_ns",
    "received_before",
    "gaps_before",
)
_FOLDED: Final = (
    "epoch", "sequence", "received_at_ns", "sampled_at_ns", "partition", "offset", "batch", "head", "value",
)  # fmt: skip
# As SQL: no header of a good record has this character in it.
_SEPARATOR: Final = r"'\u001f'"


def state_records(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Return what the twin query writes: key, value (payload untouched), headers, topic."""
    words = ", ".join(f"coalesce(cast({name} as string), '')" for name in HEADERS)
    plain = {name: name for name in ("vehicle_id", *_FOLDED)}
    # The batch is a column of its own: Spark takes no stamp of a batch inside an aggregate's arguments.
    taken = plain | {"batch": _batch(config), "head": f"concat_ws({_SEPARATOR}, {words})"}
    parsed = source.parsed(records, config)
    if config.trigger == "realtime":
        rows = dead_letters.among_twins(parsed, config, taken)
    else:
        rows = parsed.where("reason is null").selectExpr(
            *(f"{text} as {name}" for name, text in taken.items())
        )
    twin = F.call_function(FOLD, *(F.col(name) for name in _FOLDED))
    folded = rows.groupBy("vehicle_id").agg(twin.alias("twin"))
    letter = f"if({dead_letters.IS_LETTER}, from_json(twin.head, '{dead_letters.LETTER}'), null) as letter"
    warm = f"startswith(vehicle_id, {source.literals(source.WARM_KEY)})"
    topics = source.literals(source.warm_output_topic(config), config.topics.state)
    return folded.selectExpr("*", letter, f"split(twin.head, {_SEPARATOR}) as words").selectExpr(
        "if(letter is null, cast(vehicle_id as binary), letter.key) as key",
        "if(letter is null, twin.payload, letter.value) as value",
        f"if(letter is null, {_headers()}, letter.headers) as headers",
        f"if(letter is null, if({warm}, {topics}), {source.literals(config.topics.dead_letter)}) as topic",
    )


def _batch(config: TwinConfig) -> str:
    """Return SQL: what the records of one update share: Spark's stamp of the micro-batch; in real time nothing is shared."""
    return "cast(null as bigint)" if config.trigger == "realtime" else "unix_micros(current_timestamp())"


def _headers() -> str:
    """Return SQL: the headers of the twin's newest message, and its counters."""
    newest = {name: f"words[{i}]" for i, name in enumerate(HEADERS)}
    counters = {name: f"coalesce(cast(twin.{name} as string), '')" for name in COUNTERS}
    return (
        f"array({', '.join(source.record_header(name, text) for name, text in (newest | counters).items())})"
    )


def trigger(config: TwinConfig) -> dict[str, Any]:
    """Return the keyword of `DataStreamWriter.trigger` for the configured trigger."""
    if config.trigger == "realtime":
        return {"realTime": f"{round(config.realtime_duration_s * 1000)} milliseconds"}
    return {"processingTime": f"{round(config.microbatch_interval_s * 1000)} milliseconds"}


def slots(config: TwinConfig) -> int:
    """Return how many tasks a run has at once: the twin query's two stages, those of a query beside."""
    beside = config.shuffle_partitions if config.live == "spark" or config.query else 0
    return config.topic_partitions + 1 + config.shuffle_partitions + beside


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start the twin query, and in micro-batch that of the dead letters."""
    records = source.read_stream(session, config, config.topics.status, source.warm_topic(config))
    queries = [writer(state_records(records, config), config, "twin").trigger(**trigger(config)).start()]
    if config.trigger != "realtime":
        bad = dead_letters.dead_letters(source.read_stream(session, config, config.topics.status), config)
        queries.append(
            writer(bad, config, dead_letters.NAME).trigger(processingTime=_DEAD_LETTERS_EVERY).start()
        )
    return queries


# Nobody waits for a dead letter, and a micro-batch costs the same whatever it holds.
_DEAD_LETTERS_EVERY: Final = "2 seconds"
# Twins of 1.2 kB: a batch of the default 16 KiB holds 13, and behind an outage of Kafka's they leave no faster than they come.
# What waits longer than the default two minutes, on a machine that is too slow, is late; the job does not end for it.
_PRODUCER: Final = {
    "kafka.acks": "all",
    "kafka.linger.ms": "1",
    "kafka.batch.size": "262144",
    "kafka.delivery.timeout.ms": "900000",
    "kafka.max.block.ms": "900000",
}


def writer(states: DataFrame, config: TwinConfig, name: str) -> DataStreamWriter:
    """Return how updates of twins are written, by a query of that name with a checkpoint of its own."""
    return (
        states.writeStream.queryName(name)
        .format("kafka")
        .options(**config.spark_kafka())
        .options(**_PRODUCER)
        .option("kafka.max.request.size", str(max(1_048_576, config.max_payload_bytes + 65_536)))
        .option("checkpointLocation", str(config.checkpoint / name))
        .outputMode("update")
    )
