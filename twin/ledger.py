"""The batch job that gives every message due its place and every figure its value; it changes nothing in Kafka."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from schemas.errors import Refusal
from twin import figures, records
from twin.config import TwinConfig, read_twin_config
from twin.window import Window, read_window

KEY: Final = ("vehicle_id", "epoch", "sequence")
EMISSIONS: Final = pa.schema(
    [
        ("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), ("sampled_at_ns", pa.int64()),
        ("due_at_ns", pa.int64()), ("emitted_at_ns", pa.int64()), ("acknowledged_at_ns", pa.int64()),
        ("received_at_ns", pa.int64()), ("payload_bytes", pa.int32()), ("unsent_reason", pa.string()),
        ("buffered", pa.bool_()),
    ]
)  # fmt: skip
# Written by runs whose capture was joined to the log; null without.
REACHED_CLOUD: Final = "reached_cloud_at_ns"
HELD_BACK: Final = "held_back"
PROOFS: Final = {REACHED_CLOUD: "bigint", HELD_BACK: "boolean"}


def write_ledger(
    session: SparkSession, config: TwinConfig, partial: list[str] | None = None
) -> dict[str, Any]:
    """Write ledger.parquet (one row per message due) and metrics.json; return what metrics.json holds.

    Refusal when the emission log is missing or does not name each message once; ArithmeticError when
    due = delivered + late + lost + unsent does not hold for a vehicle.
    """
    # A run's rows are few: compiling a class for each stage would take longer than running them.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    reasons = list(partial or [])
    emissions = read_emissions(session, config)
    window = read_window(config, reasons)
    kafka = records.read(session, config, reasons)
    ledger = places(session, config, emissions, kafka, window).cache()
    check(ledger, pq.read_metadata(config.run_file("emissions.parquet")).num_rows)
    _write_one_file(ledger, config.run_file("ledger.parquet"))
    metrics = figures.compute(session, config, ledger, kafka, window)
    metrics |= {"partial": bool(reasons), "partial_reason": "; ".join(reasons) or None}
    _write_atomically(config.run_file("metrics.json"), json.dumps(metrics, indent=1) + "\n")
    ledger.unpersist()
    kafka.unpersist()
    return metrics


def read_emissions(session: SparkSession, config: TwinConfig) -> DataFrame:
    """Return emissions.parquet; Refusal when it or a column is missing."""
    path = config.run_file("emissions.parquet")
    if not path.is_file():
        raise Refusal(f"{path}: no emission log, so nothing is known to be due")
    missing = [name for name in EMISSIONS.names if name not in pq.read_schema(path).names]
    if missing:
        raise Refusal(f"{path}: column {missing[0]} is missing")
    emissions = session.read.parquet(str(path))
    for name, kind in PROOFS.items():
        if name not in emissions.columns:
            emissions = emissions.withColumn(name, F.lit(None).cast(kind))
    return emissions.select(*EMISSIONS.names, *PROOFS)


def places(
    session: SparkSession,
    config: TwinConfig,
    emissions: DataFrame,
    kafka: records.KafkaRecords,
    window: Window,
) -> DataFrame:
    """Return one row per message due with its stamps at every hop, its fate and, if lost, its hop."""
    if config.topology == "echo":
        stamped = _echo(emissions)
    else:
        taken = records.read_received(session, config)
        stamped = (
            emissions.drop("received_at_ns")
            .join(kafka.messages, list(KEY), "left")
            .join(taken, list(KEY), "left")
            .withColumn("received_at_ns", F.coalesce("kafka_received_at_ns", "taken_at_ns"))
        )
    placed = stamped.withColumn("fate", _fate(config)).withColumn("hop", _hop())
    timed = placed.withColumns(_delays()).withColumn("in_window", window.column())
    return timed.select(*COLUMNS)


COLUMNS: Final = (
    "vehicle_id", "epoch", "sequence", "sampled_at_ns", "due_at_ns", "emitted_at_ns", "acknowledged_at_ns",
    "reached_cloud_at_ns", "received_at_ns", "appended_at_ns", "applied_at_ns", "payload_bytes", "copies", "buffered",
    "unsent_reason", "rejected_reason", "fate", "hop", "in_window", "emission_lag_ns", "one_way_delay_ns",
    "bridge_delay_ns", "processing_delay_ns", "end_to_end_latency_ns", "acknowledgement_time_ns",
)  # fmt: skip


def _echo(emissions: DataFrame) -> DataFrame:
    # No Kafka: who receives beside the vehicle is the end of the way, and its stamp the only one.
    return emissions.withColumns(
        {
            "appended_at_ns": F.lit(None).cast("bigint"),
            "applied_at_ns": F.lit(None).cast("bigint"),
            "contained": F.col("received_at_ns").isNotNull(),
            "copies": F.lit(None).cast("bigint"),
            "rejected_reason": F.lit(None).cast("string"),
            "taken_at_ns": F.lit(None).cast("bigint"),
            "in_kafka": F.lit(False),
        }
    )


def _fate(config: TwinConfig) -> Any:
    # A pacer that was killed loses its last 100 ms of log: what arrived without an emission stamp counts from due.
    sent = F.coalesce("emitted_at_ns", "due_at_ns")
    timeout_ns = F.lit(round(config.loss_timeout_s * 1e9))
    contained = F.coalesce("contained", F.lit(False))
    return (
        F.when(contained & (F.col("received_at_ns") - sent <= timeout_ns), F.lit("delivered"))
        .when(contained, F.lit("late"))
        .when(F.col("emitted_at_ns").isNotNull(), F.lit("lost"))
        .otherwise(F.lit("unsent"))
    )


def _hop() -> Any:
    seen = (
        F.when(F.coalesce("in_kafka", F.lit(False)), F.lit("kafka"))
        .when(F.col("taken_at_ns").isNotNull(), F.lit("gateway"))
        .when(F.coalesce("acknowledged_at_ns", REACHED_CLOUD).isNotNull(), F.lit("broker"))
        .when(F.col(HELD_BACK), F.lit("vehicle"))
        .otherwise(F.lit("link"))
    )
    return F.when(F.col("fate") == "lost", seen)


def _delays() -> dict[str, Any]:
    arrived = F.col("fate") == "delivered"
    return {
        "emission_lag_ns": F.col("emitted_at_ns") - F.col("due_at_ns"),
        "one_way_delay_ns": F.when(arrived, F.col("received_at_ns") - F.col("emitted_at_ns")),
        "bridge_delay_ns": F.when(arrived, F.col("appended_at_ns") - F.col("received_at_ns")),
        "processing_delay_ns": F.when(arrived, F.col("applied_at_ns") - F.col("appended_at_ns")),
        "end_to_end_latency_ns": F.when(arrived, F.col("applied_at_ns") - F.col("due_at_ns")),
        "acknowledgement_time_ns": F.col("acknowledged_at_ns") - F.col("emitted_at_ns"),
    }


def check(ledger: DataFrame, due: int) -> None:
    """Raise ArithmeticError unless each message due has one place, for every vehicle and the run.

    Refusal when the emission log names a message twice.
    """
    fates = [
        F.count(F.when(F.col("fate") == fate, 1)).alias(fate)
        for fate in ("delivered", "late", "lost", "unsent")
    ]
    rows = ledger.groupBy("vehicle_id").agg(
        F.count("*").alias("due"), F.countDistinct(*KEY).alias("named"), *fates
    )
    total = 0
    for row in rows.collect():
        if row["named"] != row["due"]:
            raise Refusal(f"emissions.parquet: vehicle {row['vehicle_id']}: a message is due twice")
        placed = row["delivered"] + row["late"] + row["lost"] + row["unsent"]
        if row["due"] != placed:
            raise ArithmeticError(f"ledger: vehicle {row['vehicle_id']}: {row['due']} due, {placed} placed")
        total += row["due"]
    if total != due:
        raise ArithmeticError(f"ledger: {due} messages due, {total} placed")


def _write_one_file(frame: DataFrame, path: Path) -> None:
    temporary = path.with_suffix(".parquet.part")
    rows = frame.toArrow().sort_by([(name, "ascending") for name in KEY])
    pq.write_table(rows, temporary, compression="zstd")
    temporary.replace(path)


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Run the ledger alone: `python -m twin.ledger CONFIG.json`; 2 for bad input, 1 for a ledger that fails."""
    from twin.session import close_session, open_session  # noqa: PLC0415 - Spark only where it is needed

    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 1:
        print("usage: python -m twin.ledger CONFIG.json", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        config = read_twin_config(words[0])
        session = open_session(config)
        try:
            metrics = write_ledger(session, config)
        finally:
            close_session(session)
    except Refusal as error:
        print(error, file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(error, file=sys.stderr)
        return 1
    summary = {name: metrics[name] for name in ("due", "delivered", "late", "lost", "unsent", "partial")}
    print(json.dumps(summary | {"seconds": round(time.monotonic() - started, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
