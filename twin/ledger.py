"""The batch job that gives every message due its fate and every figure its value; it changes nothing in Kafka.

Four sources that fail independently are joined by vehicle, epoch and sequence: the emission log (what was due, sent and
acknowledged), the gateway's receive log, the records in Kafka, and the states of the twin. The left side is always
what was due: whatever fails, each message has exactly one row. Its fate follows from the stamps it has, and a lost
message's hop is the one behind the last place where it was seen. A source that could not be read makes the result
partial, and the result says which and why; what it would have decided is `unknown`, never `lost`.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from schemas.control import emit
from schemas.errors import Refusal
from twin import definitions, metric_values, records, run_topics
from twin.config import TwinConfig, read_twin_config
from twin.local_sql import over_file
from twin.metrics import FATES
from twin.run_topics import RunTopics
from twin.session import close_session, held, open_session
from twin.window import Window, read_window

KEY: Final = ("vehicle_id", "epoch", "sequence")
EMISSIONS: Final = pa.schema(
    [
        ("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), ("sampled_at_ns", pa.int64()),
        ("due_at_ns", pa.int64()), ("emitted_at_ns", pa.int64()), ("acknowledged_at_ns", pa.int64()),
        ("refused_at_ns", pa.int64()), ("refused_reason", pa.string()), ("refused_by", pa.string()),
        ("unanswered_at_ns", pa.int64()), ("received_at_ns", pa.int64()), ("payload_bytes", pa.int32()),
        ("unsent_reason", pa.string()), ("buffered", pa.bool_()),
    ]
)  # fmt: skip
# Written by runs whose capture was joined to the log; null without.
REACHED_CLOUD: Final = "reached_cloud_at_ns"
HELD_BACK: Final = "held_back"
PROOFS: Final = {REACHED_CLOUD: "bigint", HELD_BACK: "boolean"}
COMPILED_FROM_ROWS: Final = 200_000


def write_ledger(
    session: SparkSession,
    config: TwinConfig,
    partial: list[str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    topics: RunTopics | None = None,
) -> dict[str, Any]:
    """Write ledger.parquet (one row per message due) and metrics.json; return what metrics.json holds.

    `say` is told of each step in a few words. What `topics` has read is not read again, unless there is more.

    Refusal when the emission log is missing or does not name each message once; ArithmeticError when
    the fates of a vehicle's messages do not add up to those due.
    """
    reasons = list(partial or [])
    emissions = read_emissions(session, config)
    window = read_window(config, reasons)
    topics = topics or (run_topics.kept if config.kept_records else run_topics.of_run)(session, config)
    with held(session, stages(config)), closing(topics):
        say("reading Kafka's records" if config.kept_records else "reading Kafka")
        kafka = topics.records(session, reasons) if config.bridged else records.none(session)
        say("giving each message its fate")
        ledger = fates(session, config, emissions, kafka, window)
        _write_one_file(ledger, config.run_file("ledger.parquet"), messages_due(config))
    say("computing the figures")
    metrics = metric_values.compute(config, kafka, window)
    metrics |= {"partial": bool(reasons), "partial_reason": "; ".join(reasons) or None}
    _write_atomically(config.run_file("metrics.json"), json.dumps(metrics, indent=1) + "\n")
    return metrics


def messages_due(config: TwinConfig) -> int:
    """Return how many messages the emission log names; 0 where there is none."""
    path = config.run_file("emissions.parquet")
    return int(pq.read_metadata(path).num_rows) if path.is_file() else 0


def stages(config: TwinConfig) -> dict[str, str]:
    """Return how Spark runs the stages of a batch over the run's messages.

    For the few rows of most runs compiling a class for each stage would take longer than running them, and so would
    starting a second Python process.
    """
    if messages_due(config) > COMPILED_FROM_ROWS:
        return {"spark.sql.codegen.wholeStage": "true"}
    return {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}


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


def fates(
    session: SparkSession,
    config: TwinConfig,
    emissions: DataFrame,
    kafka: records.KafkaRecords,
    window: Window,
) -> DataFrame:
    """Return one row per message due with its stamps at every hop, its fate and, if lost, its hop."""
    stamps = definitions.STAMPS.get(config.topology)
    if stamps is not None:
        stamped = emissions.withColumns({name: F.expr(sql) for name, sql in stamps.items()})
    else:
        taken = records.read_received(session, config)
        left = records.read_in_flight(session, config)
        stamped = (
            emissions.drop("received_at_ns")
            .join(kafka.messages, list(KEY), "left")
            .join(taken, list(KEY), "left")
            .join(left, list(KEY), "left")
            .withColumn("received_at_ns", F.coalesce("kafka_received_at_ns", "taken_at_ns"))
        )
    timeout_ns = round(config.loss_timeout_s * 1e9)
    undecided = definitions.undecided(
        timeout_ns,
        window.stop_at_ns,
        status_known=kafka.status_known,
        across=definitions.ACROSS.get(config.topology, definitions.SEEN),
    )
    if config.topology == "peer":
        undecided = definitions.UNANSWERED
    fate = definitions.fate(timeout_ns, undecided, definitions.ARRIVED[config.topology])
    placed = stamped.withColumn("fate", F.expr(fate))
    placed = placed.withColumn("hop", F.expr(definitions.HOP))
    timed = placed.withColumns({name: F.expr(sql) for name, sql in definitions.DELAYS.items()})
    timed = timed.withColumn("in_window", F.expr(definitions.in_window(window.from_ns, window.to_ns)))
    return timed.select(*COLUMNS)


COLUMNS: Final = (
    "vehicle_id", "epoch", "sequence", "sampled_at_ns", "due_at_ns", "emitted_at_ns", "acknowledged_at_ns",
    "refused_at_ns", "refused_reason", "unanswered_at_ns", "reached_cloud_at_ns", "received_at_ns", "appended_at_ns",
    "applied_at_ns", "payload_bytes", "copies", "buffered", "unsent_reason", "rejected_reason", "fate", "hop",
    "in_window", "emission_lag_ns", "one_way_delay_ns", "bridge_delay_ns", "processing_delay_ns",
    "end_to_end_latency_ns", "acknowledgement_time_ns",
)  # fmt: skip


def check(ledger: Path, due: int) -> None:
    """Raise ArithmeticError unless each message due has one place, for every vehicle and the run.

    `ledger` is a file of rows sorted by KEY. Refusal when the emission log names a message twice.
    """
    named_twice = _named_twice(ledger)
    if named_twice is not None:
        raise Refusal(f"emissions.parquet: vehicle {named_twice}: a message is due twice")
    total = 0
    for row in over_file(_PLACED, ledger):
        if row["due"] != row["placed"]:
            raise ArithmeticError(
                f"ledger: vehicle {row['vehicle_id']}: {row['due']} due, {row['placed']} placed"
            )
        total += row["due"]
    if total != due:
        raise ArithmeticError(f"ledger: {due} messages due, {total} placed")


_PLACED: Final = (
    "select vehicle_id, count(*) as due,"  # noqa: S608 - the text is all our own
    f" count(*) filter (where fate in ({', '.join(map(repr, FATES))})) as placed from ? group by vehicle_id"
)


def _named_twice(ledger: Path) -> str | None:
    """Return whose message has two rows; they follow each other, so that a batch of rows is enough to see it."""
    last = None
    with pq.ParquetFile(ledger) as file:
        for batch in file.iter_batches(columns=list(KEY)):
            rows = pa.Table.from_batches([batch])
            rows = rows if last is None else pa.concat_tables([last, rows])
            same = [pc.equal(rows[name].slice(1), rows[name].slice(0, len(rows) - 1)) for name in KEY]
            again = rows["vehicle_id"].slice(1).filter(pc.and_(pc.and_(same[0], same[1]), same[2]))
            if len(again):
                return str(again[0])
            last = rows.slice(len(rows) - 1)
    return None


def _write_one_file(frame: DataFrame, path: Path, due: int) -> None:
    """Write the rows, sorted and checked, to one file; Spark writes it, so that a long run's need not fit into memory."""
    parts = path.with_suffix(".parts")
    shutil.rmtree(parts, ignore_errors=True)  # of a ledger that was ended in the middle
    try:
        ordered = frame.coalesce(1).sortWithinPartitions(*KEY)
        ordered.write.option("compression", "zstd").parquet(str(parts))
        (part,) = parts.glob("part-*.parquet")
        check(part, due)
        part.replace(path)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def tell_step(words: str) -> None:
    """Tell the owner what the ledger is at."""
    emit("step", words=words)


def main(arguments: list[str] | None = None) -> int:
    """Run the ledger alone: `python -m twin.ledger CONFIG.json`; 2 for bad input, 1 for a ledger that fails."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 1:
        print("usage: python -m twin.ledger CONFIG.json", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        config = read_twin_config(words[0])
        tell_step("starting Spark")
        session = open_session(config)
        try:
            metrics = write_ledger(session, config, say=tell_step)
        finally:
            close_session(session)
    except Refusal as error:
        print(error, file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(error, file=sys.stderr)
        return 1
    summary = {name: metrics[name] for name in ("due", *FATES, "partial")}
    print(json.dumps(summary | {"seconds": round(time.monotonic() - started, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
