"""What the ledger must agree with: `ivsim.audit`, fed from a broker that is still there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from ivsim.audit import figures
from ivsim.audit.due import Key
from ivsim.audit.kafka_records import Kafka, held, rejection
from ivsim.audit.ledger import Ledger, first_taken
from ivsim.audit.result import Terms
from schemas.kafka_login import client_settings
from tests.ivsim.audit.whole import kafka_figures, link_figures, message_figures

HOPS, FATES = figures.HOPS, figures.FATES
TOLERANCE_NS = 5_000_000_000
_HEADERS = (
    "format",
    "protocol",
    "mode",
    "epoch",
    "sequence",
    "sampled_at_ns",
    "received_at_ns",
    "messages",
)


def read_topic(bootstrap: str, topic: str, login: str = "") -> list[dict[str, Any]]:
    """Return all records of a topic: partition, offset, timestamp_ns, key, value, headers (a dict)."""
    settings = client_settings(bootstrap, login)
    consumer = Consumer(settings | {"group.id": "oracle", "enable.auto.commit": False})
    try:
        parts = [
            TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        ends = {p.partition: consumer.get_watermark_offsets(p, 10)[1] for p in parts}
        consumer.assign([p for p in parts if ends[p.partition]])
        records: list[dict[str, Any]] = []
        while len(records) < sum(ends.values()):
            # No more than there are: it would wait for the others.
            batch = consumer.consume(min(1_000, sum(ends.values()) - len(records)), 10)
            assert batch, f"{topic}: {len(records)} of {sum(ends.values())} records"
            records += [_record(message) for message in batch]
        return records
    finally:
        consumer.close()


def _record(message: Any) -> dict[str, Any]:
    assert message.error() is None, message.error()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ns": message.timestamp()[1] * 1_000_000,
        "key": message.key(),
        "value": message.value(),
        "headers": dict(message.headers() or []),
    }


def kept(record: dict[str, Any], topic: str) -> dict[str, Any]:
    """Return a record as a run keeps it in kafka_records.parquet."""
    key, value = record["key"], record["value"]
    return {
        "topic": topic,
        "partition": record["partition"],
        "offset": record["offset"],
        "appended_at_ns": record["timestamp_ns"],
        "key": key,
        "value_bytes": None if value is None else len(value),
        "value_has_key": None if value is None or key is None else key in value,
        **{f"header_{name}": record["headers"].get(name) for name in _HEADERS},
    }


def good(record: dict[str, Any]) -> bool:
    """Return whether a record of vehicle.status may enter the twin."""
    return rejection(kept(record, "vehicle.status"), TOLERANCE_NS) is None


def metrics(run_dir: Path, bootstrap: str | None, prefix: str, loss_timeout_s: float) -> dict[str, Any]:
    """Return every metric of the run; `bootstrap` None stands for the topology `echo`."""

    def topic(name: str) -> list[dict[str, Any]]:
        return [] if bootstrap is None else read_topic(bootstrap, f"{prefix}{name}")

    kafka = _held(topic("vehicle.status"), topic("twin.state"))
    run, terms = _run(run_dir), _terms(run_dir, loss_timeout_s, echo=bootstrap is None)
    measured = _window(run, terms)
    rows = _ledger(run_dir, kafka, terms)
    clock = run_dir / "clock.json"
    return {
        **message_figures(rows, measured, kafka=terms.end == "twin"),
        **figures.window_figures(measured, terms.start_at_ns),
        **kafka_figures(rows, kafka, terms.end),
        **figures.connection_figures(_rows(run_dir, "connections.parquet"), run.get("backlog_max")),
        **link_figures(_rows(run_dir, "link.parquet"), terms.warmup_s, rows, measured[0]),
        "clock_drift_ms": json.loads(clock.read_text())["clock_drift_ms"] if clock.is_file() else None,
    }


def ledger(
    run_dir: Path,
    status: list[dict[str, Any]],
    states: list[dict[str, Any]],
    loss_timeout_s: float,
    *,
    echo: bool,
) -> list[dict[str, Any]]:
    """Return a row per message due with its fate, hop and stamps."""
    return _ledger(run_dir, _held(status, states), _terms(run_dir, loss_timeout_s, echo=echo))


def _held(status: list[dict[str, Any]], states: list[dict[str, Any]]) -> Kafka:
    rows = [kept(record, "vehicle.status") for record in status]
    return held(rows + [kept(record, "twin.state") for record in states], TOLERANCE_NS)


def _run(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "run.json").read_text())


def _terms(run_dir: Path, loss_timeout_s: float, *, echo: bool) -> Terms:
    run = _run(run_dir)
    return Terms(
        end="receiver" if echo else "twin", start_at_ns=run["start_at_ns"], vehicles=0, seed=0, interval_ns=1, duration_ns=0,
        loss_timeout_ns=round(loss_timeout_s * 1e9), future_tolerance_ns=TOLERANCE_NS,
        warmup_s=run.get("warmup_s", 0.0),
    )  # fmt: skip


def _window(run: dict[str, Any], terms: Terms) -> tuple[int, int]:
    ends = [] if run.get("stop_at_ns") is None else [run["stop_at_ns"] - terms.loss_timeout_ns]
    ends += [run["end_at_ns"]] if "end_at_ns" in run else []
    return terms.start_at_ns + round(terms.warmup_s * 1e9), min(ends)


def _ledger(run_dir: Path, kafka: Kafka, terms: Terms) -> list[dict[str, Any]]:
    run = _run(run_dir)
    taken = [
        (Key(row["vehicle_id"], row["epoch"], row["sequence"]), row["received_at_ns"])
        for row in _rows(run_dir, "received.parquet") or []
    ]
    left = {
        Key(row["vehicle_id"], row["epoch"], row["sequence"])
        for row in _rows(run_dir, "in_flight.parquet") or []
    }
    made = Ledger(first_taken(taken), kafka, terms, _window(run, terms), run.get("stop_at_ns"), left)
    return made.rows(_rows(run_dir, "emissions.parquet") or [])


def _rows(run_dir: Path, name: str) -> list[dict[str, Any]] | None:
    path = run_dir / name
    return pq.read_table(path).to_pylist() if path.is_file() else None
