"""The metrics once more in plain Python, from the logs and Kafka's records: what Spark's ledger must agree with.

It shares no code with the package `twin` but the names of the metrics; slow and simple on purpose.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

KNOWN_FORMATS = {"json", "protobuf", "flatbuffers", "avro", "msgpack", "small"}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
HOPS = ("vehicle", "link", "broker", "gateway", "kafka")
WORD = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def read_topic(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Return all records of a topic: partition, offset, timestamp_ns, key, value, headers (a dict)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "oracle", "enable.auto.commit": False})
    try:
        parts = [
            TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        ends = {p.partition: consumer.get_watermark_offsets(p, 10)[1] for p in parts}
        consumer.assign([p for p in parts if ends[p.partition]])
        records: list[dict[str, Any]] = []
        while len(records) < sum(ends.values()):
            batch = consumer.consume(1_000, 10)
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


def integer(text: bytes | None) -> int | None:
    """Return the header's integer if it fits 64 bits, else None."""
    try:
        value = int(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def good(record: dict[str, Any], tolerance_s: float = 5.0, max_payload_bytes: int = 1_048_576) -> bool:  # noqa: PLR0911 - a rule a line
    """Return whether a record of vehicle.status may enter the twin."""
    key, value, headers = record["key"], record["value"], record["headers"]
    if not key or len(key) > 32 or not set(key.decode("latin-1")) <= WORD:
        return False
    if not value or len(value) > max_payload_bytes:
        return False
    needed = ("format", "protocol", "mode", "epoch", "sequence", "received_at_ns")
    if any(headers.get(name) is None for name in needed):
        return False
    if any(
        len(text) > 64 or not all(32 <= byte < 127 for byte in text)
        for text in headers.values()
        if text is not None
    ):
        return False
    if headers["format"].decode() not in KNOWN_FORMATS:
        return False
    epoch, sequence, received = (integer(headers[name]) for name in ("epoch", "sequence", "received_at_ns"))
    if epoch is None or not 0 <= epoch <= 2**53 or sequence is None or not 1 <= sequence <= 2**53:
        return False
    sampled = integer(headers.get("sampled_at_ns"))
    if headers.get("sampled_at_ns") and (sampled is None or sampled <= 0):
        return False
    latest = record["timestamp_ns"] + int(tolerance_s * 1e9)
    if received is None or received <= 0 or received > latest or (sampled or 0) > latest:
        return False
    return headers["format"] == b"small" or key in value


def identity(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["key"].decode(), int(record["headers"]["epoch"]), int(record["headers"]["sequence"])


def nearest_rank_ms(values: list[int], share: float) -> float | None:
    """Return the smallest value with at least `share` of all values at or below it, ns to ms."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] / 1e6


def metrics(run_dir: Path, bootstrap: str | None, prefix: str, loss_timeout_s: float) -> dict[str, Any]:
    """Return every metric of the run; `bootstrap` None stands for the topology `echo`."""
    status = read_topic(bootstrap, f"{prefix}vehicle.status") if bootstrap else []
    states = read_topic(bootstrap, f"{prefix}twin.state") if bootstrap else []
    rows = ledger(run_dir, status, states, loss_timeout_s, echo=bootstrap is None)
    from_ns, to_ns, warmup_s = window(run_dir, loss_timeout_s)
    measured = [row for row in rows if from_ns <= row["due_at_ns"] < to_ns]
    found = counts(measured, echo=bootstrap is None) | latencies(measured)
    delivered = [row for row in measured if row["fate"] == "delivered"]
    found["goodput_bps"] = sum(row["payload_bytes"] for row in delivered) * 8 / ((to_ns - from_ns) / 1e9)
    found["run_due"] = len(rows)
    found |= link(
        run_dir, warmup_s, [r for r in rows if r["fate"] == "delivered" and r["due_at_ns"] >= from_ns]
    )
    clock = run_dir / "clock.json"
    found["clock_drift_ms"] = json.loads(clock.read_text())["clock_drift_ms"] if clock.is_file() else None
    found |= connections(run_dir)
    found |= {"twin_updates": None, "rejected_records": None, "unknown_records": None}
    if bootstrap:
        due = {(row["vehicle_id"], row["epoch"], row["sequence"]) for row in rows}
        found["twin_updates"] = len(states)
        found["rejected_records"] = sum(not good(record) for record in status)
        found["unknown_records"] = sum(good(record) and identity(record) not in due for record in status)
    return found


def connections(run_dir: Path) -> dict[str, Any]:
    path = run_dir / "connections.parquet"
    rows = pq.read_table(path).to_pylist() if path.is_file() else None
    events = Counter(row["event"] for row in rows or [])
    counted = {
        "connections": "connected",
        "connect_failures": "connect_failed",
        "disconnections": "disconnected",
    }
    found: dict[str, Any] = {name: None if rows is None else events[event] for name, event in counted.items()}
    found["sessions_resumed"] = None if rows is None else sum(bool(row["session_present"]) for row in rows)
    run = json.loads((run_dir / "run.json").read_text())
    found["backlog_max"] = None if rows is None else run.get("backlog_max")
    times = [row["handshake_ns"] for row in rows or [] if row["handshake_ns"] is not None]
    return found | {f"handshake_time_{q}_ms": nearest_rank_ms(times, share) for q, share in QUANTILES.items()}


def window(run_dir: Path, loss_timeout_s: float) -> tuple[int, int, float]:
    run = json.loads((run_dir / "run.json").read_text())
    ends = [run["stop_at_ns"] - round(loss_timeout_s * 1e9)] + (
        [run["end_at_ns"]] if "end_at_ns" in run else []
    )
    warmup_s = run.get("warmup_s", 0.0)
    return run["start_at_ns"] + round(warmup_s * 1e9), min(ends), warmup_s


def ledger(
    run_dir: Path,
    status: list[dict[str, Any]],
    states: list[dict[str, Any]],
    loss_timeout_s: float,
    *,
    echo: bool,
) -> list[dict[str, Any]]:
    """Return a row per message due with its fate, hop and stamps."""
    copies: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
    refused = set()
    for record in status:
        if good(record):
            copies[identity(record)].append(record)
        elif record["key"] and None not in (integer(record["headers"].get(n)) for n in ("epoch", "sequence")):
            refused.add(
                (record["key"].decode(), *(integer(record["headers"].get(n)) for n in ("epoch", "sequence")))
            )
    twin: dict[str, list[tuple[tuple[int, int], int]]] = defaultdict(list)
    for record in states:
        vehicle, epoch, sequence = identity(record)
        twin[vehicle].append(((epoch, sequence), record["timestamp_ns"]))
    received = _received(run_dir)
    rows = pq.read_table(run_dir / "emissions.parquet").to_pylist()
    for row in rows:
        key = row["vehicle_id"], row["epoch"], row["sequence"]
        row["copies"] = len(copies[key]) if not echo and key in copies else None
        row["appended_at_ns"] = row["applied_at_ns"] = None
        if not echo:
            row["received_at_ns"] = received.get(key)
        if key in copies:
            first = min(copies[key], key=lambda r: (r["timestamp_ns"], r["partition"], r["offset"]))
            row["appended_at_ns"] = first["timestamp_ns"]
            row["received_at_ns"] = int(first["headers"]["received_at_ns"])
            later = [at for order, at in twin[key[0]] if order >= key[1:] and at >= first["timestamp_ns"]]
            row["applied_at_ns"] = min(later, default=None)
        contained = row["received_at_ns"] is not None if echo else row["applied_at_ns"] is not None
        row["fate"] = _fate(row, contained, loss_timeout_s)
        row["hop"] = (
            _hop(row, key in copies or key in refused, key in received) if row["fate"] == "lost" else None
        )
    return rows


def _received(run_dir: Path) -> dict[tuple[str, int, int], int]:
    path = run_dir / "received.parquet"
    first: dict[tuple[str, int, int], int] = {}
    for row in pq.read_table(path).to_pylist() if path.is_file() else []:
        key = row["vehicle_id"], row["epoch"], row["sequence"]
        first[key] = min(first.get(key, row["received_at_ns"]), row["received_at_ns"])
    return first


def _fate(row: dict[str, Any], contained: bool, loss_timeout_s: float) -> str:
    if contained:
        sent = row["emitted_at_ns"] if row["emitted_at_ns"] is not None else row["due_at_ns"]
        return "delivered" if row["received_at_ns"] - sent <= round(loss_timeout_s * 1e9) else "late"
    return "unsent" if row["emitted_at_ns"] is None else "lost"


def _hop(row: dict[str, Any], in_kafka: bool, taken: bool) -> str:
    if in_kafka:
        return "kafka"
    if taken:
        return "gateway"
    if row["acknowledged_at_ns"] is not None or row.get("reached_cloud_at_ns") is not None:
        return "broker"
    return "vehicle" if row.get("held_back") else "link"


def counts(rows: list[dict[str, Any]], *, echo: bool) -> dict[str, Any]:
    fates, hops = Counter(row["fate"] for row in rows), Counter(row["hop"] for row in rows)
    arrived = [row for row in rows if row["fate"] in ("delivered", "late")]
    return {
        "due": len(rows),
        **{fate: fates[fate] for fate in ("delivered", "late", "lost", "unsent")},
        **{f"lost_at_{hop}": hops[hop] for hop in HOPS},
        "duplicates": None if echo else sum(row["copies"] - 1 for row in rows if row["copies"] is not None),
        "delivery_ratio": fates["delivered"] / len(rows) if rows else None,
        "unlogged_emissions": sum(row["emitted_at_ns"] is None for row in arrived),
        "buffered": sum(row["buffered"] for row in rows),
    }


def latencies(rows: list[dict[str, Any]]) -> dict[str, Any]:
    delivered = [row for row in rows if row["fate"] == "delivered"]
    stages = {
        "one_way_delay": (delivered, "received_at_ns", "emitted_at_ns"),
        "bridge_delay": (delivered, "appended_at_ns", "received_at_ns"),
        "processing_delay": (delivered, "applied_at_ns", "appended_at_ns"),
        "end_to_end_latency": (delivered, "applied_at_ns", "due_at_ns"),
        "acknowledgement_time": (rows, "acknowledged_at_ns", "emitted_at_ns"),
    }
    found: dict[str, Any] = {}
    for name, (population, later, earlier) in stages.items():
        both = [r[later] - r[earlier] for r in population if r[later] is not None and r[earlier] is not None]
        found |= {f"{name}_{q}_ms": nearest_rank_ms(both, share) for q, share in QUANTILES.items()}
    lags = [row["emitted_at_ns"] - row["due_at_ns"] for row in rows if row["emitted_at_ns"] is not None]
    found["emission_lag_p99_ms"] = nearest_rank_ms(lags, 0.99)
    return found


def link(run_dir: Path, warmup_s: float, delivered: list[dict[str, Any]]) -> dict[str, Any]:
    path = run_dir / "link.parquet"
    names = ("rate_{}_asked_bps", "rate_{}_achieved_bps", "delay_{}_asked_ms", "delay_{}_achieved_ms")
    names += ("loss_{}_asked_ratio", "loss_{}_achieved_ratio")
    found: dict[str, Any] = {
        f"link_{name.format(way)}": None for name in names for way in ("uplink", "downlink")
    }
    found |= {f"{kind}_bytes_{way}": None for kind in ("wire", "probe") for way in ("uplink", "downlink")}
    found["overhead_bytes_per_message"] = None
    if not path.is_file():
        return found
    for way in ("uplink", "downlink"):
        rows = [row for row in pq.read_table(path).to_pylist() if row["direction"] == way]
        rows = [row for row in rows if warmup_s == 0 or row["second"] >= warmup_s]
        if rows:
            found |= _one_way(way, rows)
    wire = found["wire_bytes_uplink"], found["wire_bytes_downlink"]
    if delivered and None not in wire:
        once = sum(row["payload_bytes"] for row in delivered)
        found["overhead_bytes_per_message"] = (sum(wire) - once) / len(delivered)
    return found


def _one_way(way: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    run = [row for row in rows if row["second"] >= 0]

    def total(name: str, among: list[dict[str, Any]]) -> int | None:
        known = [row[name] for row in among if row.get(name) is not None]
        return sum(known) if known else None

    def mean(name: str, scale: float) -> float | None:
        known = [math.floor(row[name] * scale + 0.5) for row in run if row.get(name) is not None]
        return sum(known) / len(known) / scale if known else None

    passed = total("qdisc_bytes", run)
    captured, in_run = total("wire_bytes", rows), total("wire_bytes", run)
    probes = total("probe_bytes", rows)
    if passed is None and in_run is not None:
        passed = in_run - (total("probe_bytes", run) or 0)
    drops, packets = total("drops", run), total("qdisc_packets", run)
    offered = None if drops is None or packets is None else drops + packets
    return {
        f"wire_bytes_{way}": None if captured is None else captured - (probes or 0),
        f"probe_bytes_{way}": probes,
        f"link_rate_{way}_asked_bps": mean("asked_rate_bps", 1),
        f"link_rate_{way}_achieved_bps": passed * 8 / len(run) if passed is not None and run else None,
        f"link_delay_{way}_asked_ms": mean("asked_delay_ms", 1e6),
        f"link_delay_{way}_achieved_ms": mean("probe_delay_ms", 1e6),
        f"link_loss_{way}_asked_ratio": mean("asked_loss_ratio", 1e9),
        f"link_loss_{way}_achieved_ratio": drops / offered if offered else None,
    }
