"""The live figures as a query of Spark's: for fleets whose updates one consumer cannot read."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from twin import source
from twin.config import TwinConfig
from twin.live_sums import FLEET, QUANTILES, WATERMARK_S, WAYS
from twin.session import held

# Ranks are exact up to this many values in a window, then within 1 in this many.
_ACCURACY: Final = 2_000
# A few groups for each vehicle: what a batch costs is planning, tasks and commits.
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}
# A record that is one row counts as an array of one.
_COUNTS: Final = (
    "array<struct<vehicle_id string, second bigint, emitted bigint, unsent bigint, direction string,"
    " wire_bytes bigint>>"
)
# Counters of one twin, all growing, and two of them as they were at its update before.
_COUNTERS: Final = ("received", "known", "duplicates", "payload_bytes")
_BEFORE: Final = ("received_before", "known_before")
_HEADERS: Final = (
    "messages", "duplicates", "gaps", "given_up", "payload_bytes", "received_before", "gaps_before",
    "sampled_at_ns", "sampled_before_ns", "received_at_ns", "last_received_at_ns",
)  # fmt: skip


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start the query that writes run.metrics."""
    topics = config.topics
    # The warm-up records keep the first real ones from paying for compilation; they end in no figure.
    wanted = (topics.state, topics.emissions, topics.link, source.warm_output_topic(config))
    records = source.read_stream(session, config, *wanted)
    writer = (
        figures(events(records, config), config)
        .writeStream.queryName("live")
        .format("kafka")
        .options(**config.spark_kafka())
        .option("topic", topics.metrics)
        .option("checkpointLocation", str(config.checkpoint / "live"))
        .outputMode("update")
        .trigger(processingTime=f"{round(config.live_interval_s * 1000)} milliseconds")
    )
    with held(session, _SMALL):
        return [writer.start()]


def events(records: DataFrame, config: TwinConfig) -> DataFrame:
    """Return one row per twin update, emission count and link count, with its time in seconds."""
    topics = config.topics
    is_state = F.col("topic").isin(topics.state, source.warm_output_topic(config))
    texts = records.select("topic", "timestamp", F.col("key").cast("string").alias("key"), "headers", "value")
    numbers = {name: F.expr(f"try_cast({source.header(name)} as bigint)") for name in _HEADERS}
    counts = F.when(~is_state, F.from_json(F.col("value").cast("string"), _COUNTS))
    typed = texts.withColumns({name: F.when(is_state, column) for name, column in numbers.items()}).select(
        "*", F.explode_outer(counts).alias("c")
    )
    emitted = F.col("topic") == topics.emissions
    # The update that a message itself caused: a late one or a duplicate leaves an older stamp as the newest.
    own = F.col("received_at_ns") == F.col("last_received_at_ns")
    due = F.coalesce("sampled_at_ns", "received_at_ns")
    applied = F.expr(source.APPENDED)
    received = F.col("messages") - F.col("duplicates") - F.col("given_up")
    # A record of run.link without a direction says what a link gives: nothing has crossed it.
    crossed = (F.col("topic") == topics.link) & F.col("c.direction").isNotNull()
    return typed.select(
        F.when(is_state, F.col("key")).when(emitted | crossed, F.col("c.vehicle_id")).alias("vehicle_id"),
        F.coalesce(F.floor(due / F.lit(1_000_000_000)), _second()).alias("second"),
        received.alias("received"),
        (received + F.col("gaps")).alias("known"),
        "duplicates", "given_up", "payload_bytes", "received_before",
        (F.col("received_before") + F.col("gaps_before")).alias("known_before"),
        *_ages(applied),
        F.when(own, applied - due).alias("end_to_end_ns"),
        F.when(own, F.col("received_at_ns") - due).alias("due_to_received_ns"),
        *(F.when(emitted, F.col(f"c.{name}")).alias(name) for name in ("emitted", "unsent")),
        *(
            F.when(crossed & (F.col("c.direction") == way), F.col("c.wire_bytes")).alias(f"wire_bytes_{way}")
            for way in WAYS
        ),
    ).where("vehicle_id is not null and second between 1 and 100000000000")  # fmt: skip


def _ages(applied: Column) -> list[Column]:
    """Return what one update adds to the age of information: peak (ms), area (ms^2) and the time it is over (ms).

    The saw-tooth's trapezoid that belongs to the update (Kaul, Yates, Gruteser: Real-time status, INFOCOM 2012).
    """
    sampled, before = F.col("sampled_at_ns"), F.col("sampled_before_ns")
    valid = sampled > before
    peak, rest = (applied - before) / F.lit(1e6), (applied - sampled) / F.lit(1e6)
    return [
        F.when(valid, peak).alias("age_peak"),
        F.when(valid, (peak * peak - rest * rest) / 2).alias("age_area"),
        F.when(valid, (sampled - before) / F.lit(1e6)).alias("age_time"),
    ]


def _second() -> Column:
    # Seconds since 1970 are taken as they are; seconds since the run's start say no time of day: then the append stamp.
    second = F.col("c.second")
    return F.when(second >= 1_000_000_000, second).when(second.isNotNull(), F.unix_seconds("timestamp"))


def figures(rows: DataFrame, config: TwinConfig) -> DataFrame:
    """Return Kafka records: a figure per vehicle and fleet ("*"), for each window and (window null) the run so far."""
    width = config.live_window_s
    start_s = F.floor(F.col("second") / F.lit(width)) * F.lit(width)
    warm = F.col("vehicle_id").startswith(source.WARM_KEY)
    fleet = F.when(warm, F.col("vehicle_id")).otherwise(F.lit(FLEET))
    groups = F.explode(
        F.array(
            *(
                F.struct(name.alias("vehicle"), when.alias("window_start"))
                for name in (F.col("vehicle_id"), fleet)
                for when in (F.timestamp_seconds(start_s), F.lit(None).cast("timestamp"))
            )
        )
    )
    grouped = (
        rows.select("*", groups.alias("g"))
        .select("*", F.col("g.vehicle").alias("vehicle"), F.col("g.window_start").alias("window_start"))
        .withWatermark("window_start", f"{WATERMARK_S} seconds")
        .groupBy("vehicle", "window_start")
        .agg(*_aggregates())
    )
    real = grouped.where(~F.col("vehicle").startswith(source.WARM_KEY))
    return real.select(
        F.concat_ws(
            "/", "vehicle", F.coalesce(F.unix_seconds("window_start").cast("string"), F.lit("run"))
        ).alias("key"),
        F.to_json(F.struct(*_fields(width)), {"ignoreNullFields": "false"}).alias("value"),
    )


def _aggregates() -> list[Column]:
    sums = ("emitted", "unsent", "wire_bytes_uplink", "wire_bytes_downlink", "age_area", "age_time")
    fleet = F.col("vehicle") == FLEET
    shares = F.array(*(F.lit(share) for share in QUANTILES.values()))
    return [
        *(F.max(name).alias(name) for name in (*_COUNTERS, "given_up", "age_peak")),
        *(F.min(name).alias(name) for name in _BEFORE),
        *(F.sum(name).alias(name) for name in sums),
        F.count("received").alias("updates"),
        # Of the fleet alone: a vehicle's would be most of what a batch writes.
        *(
            F.percentile_approx(F.when(fleet, F.col(f"{name}_ns")), shares, _ACCURACY).alias(name)
            for name in ("end_to_end", "due_to_received")
        ),
    ]


def _fields(width: int) -> list[Column]:
    fleet = F.col("vehicle") == FLEET
    # Counters of one vehicle grow over the run; a maximum over many vehicles says nothing. Once the twin has given
    # records up its other counters are of a part: what was received is not known.
    whole = ~fleet & (F.col("given_up") == 0)
    of_one = {name: F.when(whole, F.col(name)) for name in (*_COUNTERS, *_BEFORE)}
    received, known = of_one["received"], of_one["known"]
    wire = F.col("wire_bytes_uplink") + F.col("wire_bytes_downlink")
    run = F.col("window_start").isNull()
    here, known_here = (of_one[name] - of_one[f"{name}_before"] for name in ("received", "known"))
    due = F.col("emitted") + F.coalesce("unsent", F.lit(0))
    quantiles = [
        (F.col(name)[i] / F.lit(1e6)).alias(f"{label}_{quantile}_ms")
        for name, label in (("end_to_end", "end_to_end_latency"), ("due_to_received", "due_to_received"))
        for i, quantile in enumerate(QUANTILES)
    ]
    return [
        F.col("vehicle").alias("vehicle_id"),
        F.unix_seconds("window_start").alias("window_start_s"),
        F.lit(width).alias("window_s"),
        F.when(~fleet, F.col("received")).alias("contained"),
        received.alias("received"),
        of_one["duplicates"].alias("duplicates"),
        (known - received).alias("gaps"),
        F.when(~fleet, F.col("given_up")).alias("given_up"),
        of_one["payload_bytes"].alias("payload_bytes"),
        *(
            F.col(name)
            for name in ("emitted", "unsent", "wire_bytes_uplink", "wire_bytes_downlink", "updates")
        ),
        F.when(~run, here).alias("received_in_window"),
        F.when(~run, known_here - here).alias("gaps_in_window"),
        # The run's: of what was due; what is on its way counts as missing until it arrives. A window's: of the
        # sequences that the twin learned of in it; undefined where late messages closed an older window's gaps.
        F.when(run & (received > 0), received / due)
        .when(~run & (known_here > 0) & (here <= known_here), here / known_here)
        .alias("delivery_ratio"),
        F.when(run & (received > 0), (wire - of_one["payload_bytes"]) / received).alias(
            "overhead_bytes_per_message"
        ),
        (F.col("age_area") / F.col("age_time")).alias("age_of_information_mean_ms"),
        F.col("age_peak").alias("age_of_information_peak_ms"),
        *quantiles,
    ]
