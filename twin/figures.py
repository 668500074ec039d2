"""The values of METRICS from the ledger, the link log and the clock's record; exact, so that an oracle can agree."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from twin import connections
from twin.config import TwinConfig
from twin.metrics import DIRECTIONS, HOPS, LATENCIES, METRICS, QUANTILES
from twin.records import KEY, KafkaRecords
from twin.window import Window


def compute(
    session: SparkSession, config: TwinConfig, ledger: DataFrame, kafka: KafkaRecords, window: Window
) -> dict[str, Any]:
    """Return every name in METRICS with its value, None where it is undefined."""
    row = ledger.agg(*_counts(config), *_quantiles(), *_bytes(window)).head()
    assert row is not None
    values = _from_row(row, window)
    values |= {
        "twin_updates": kafka.twin_updates,
        "rejected_records": kafka.rejected_records,
        "unknown_records": _unknown(ledger, kafka),
        "clock_drift_ms": _clock_drift_ms(config),
    }
    values |= _link(session, config, window, row)
    values |= connections.figures(config)
    return {name: values.get(name) for name in METRICS}


def _counts(config: TwinConfig) -> list[Column]:
    inside, fate = F.col("in_window"), F.col("fate")
    arrived = fate.isin("delivered", "late")
    duplicates = F.sum(F.when(inside & F.col("copies").isNotNull(), F.col("copies") - 1))
    return [
        F.count("*").alias("run_due"),
        F.count(F.when(inside, 1)).alias("due"),
        *(
            F.count(F.when(inside & (fate == name), 1)).alias(name)
            for name in ("delivered", "late", "lost", "unsent")
        ),
        *(F.count(F.when(inside & (F.col("hop") == hop), 1)).alias(f"lost_at_{hop}") for hop in HOPS),
        F.count(F.when(inside & arrived & F.col("emitted_at_ns").isNull(), 1)).alias("unlogged_emissions"),
        F.count(F.when(inside & F.col("buffered"), 1)).alias("buffered"),
        (F.coalesce(duplicates, F.lit(0)) if config.topology != "echo" else F.lit(None)).alias("duplicates"),
    ]


def _quantiles() -> list[Column]:
    inside = F.col("in_window")
    wanted = [(name, column, list(QUANTILES.values())) for name, (column, _, _) in LATENCIES.items()]
    wanted.append(("emission_lag", "emission_lag_ns", [0.99]))
    # percentile_disc is the nearest rank: a value of the population, so no rounding differs between two programs.
    return [
        F.expr(
            f"percentile_disc(array({','.join(map(str, shares))})) within group (order by case when in_window then {column} end)"
        ).alias(f"q_{name}")
        for name, column, shares in wanted
    ] + [F.count(F.when(inside, 1)).alias("measured")]


def _bytes(window: Window) -> list[Column]:
    delivered = F.col("fate") == "delivered"
    after = delivered & (F.col("due_at_ns") >= window.from_ns) if window.from_ns is not None else delivered
    return [
        F.sum(F.when(F.col("in_window") & delivered, F.col("payload_bytes"))).alias("payload_in_window"),
        F.sum(F.when(after, F.col("payload_bytes"))).alias("payload_after_warmup"),
        F.count(F.when(after, 1)).alias("delivered_after_warmup"),
    ]


def _from_row(row: Row, window: Window) -> dict[str, Any]:
    found = row.asDict()
    values = {name: found[name] for name in METRICS if name in found}
    values["delivery_ratio"] = found["delivered"] / found["due"] if found["due"] else None
    for name in LATENCIES:
        for quantile, value in zip(QUANTILES, found[f"q_{name}"] or [None] * len(QUANTILES), strict=True):
            values[f"{name}_{quantile}_ms"] = _milliseconds(value)
    lag = found["q_emission_lag"]
    values["emission_lag_p99_ms"] = _milliseconds(lag[0]) if lag else None
    if window.seconds:
        values["goodput_bps"] = (found["payload_in_window"] or 0) * 8 / window.seconds
    return values


def _milliseconds(value: float | None) -> float | None:
    return None if value is None else int(value) / 1e6


def _unknown(ledger: DataFrame, kafka: KafkaRecords) -> int | None:
    if kafka.twin_updates is None:
        return None
    strangers = kafka.messages.where("copies is not null").join(ledger.select(*KEY), KEY, "left_anti")
    row = strangers.agg(F.coalesce(F.sum("copies"), F.lit(0))).head()
    assert row is not None
    return int(row[0])


def _clock_drift_ms(config: TwinConfig) -> float | None:
    path = config.run_file("clock.json")
    if not path.is_file():
        return None
    drift = json.loads(path.read_text(encoding="utf-8")).get("clock_drift_ms")
    return None if drift is None else float(drift)


def _link(session: SparkSession, config: TwinConfig, window: Window, row: Row) -> dict[str, Any]:
    path = config.run_file("link.parquet")
    if not path.is_file():
        return {}
    present = set(pq.read_schema(path).names)
    link = session.read.parquet(str(path))
    for name in _LINK_COLUMNS - present:
        link = link.withColumn(name, F.lit(None).cast("double"))
    # With no warm-up the seconds before the start count too: the handshakes are in them.
    measured = F.col("second") >= window.warmup_s if window.warmup_s > 0 else F.lit(True)
    found = {r["direction"]: r for r in link.groupBy("direction").agg(*_link_sums(measured)).collect()}
    values: dict[str, Any] = {}
    for way in DIRECTIONS:
        values |= _one_way(way, found[way]) if way in found else {}
    wire = [values.get(f"wire_bytes_{way}") for way in DIRECTIONS]
    delivered = row["delivered_after_warmup"]
    if delivered and None not in wire:
        values["overhead_bytes_per_message"] = (sum(wire) - row["payload_after_warmup"]) / delivered  # type: ignore[arg-type]
    return values


_LINK_COLUMNS = {
    "asked_rate_bps", "asked_delay_ms", "asked_loss_ratio", "wire_bytes", "qdisc_bytes", "qdisc_packets", "drops",
    "probe_delay_ms", "probe_bytes",
}  # fmt: skip


def _link_sums(measured: Column) -> list[Column]:
    run = measured & (F.col("second") >= 0)

    def total(name: str, where: Column) -> Column:
        return F.sum(F.when(where, F.col(name)))

    # Means are sums of integers over counts: floating sums would depend on the order of the rows.
    return [
        total("wire_bytes", measured).cast("bigint").alias("captured"),
        total("probe_bytes", measured).cast("bigint").alias("probes"),
        total("probe_bytes", run).cast("bigint").alias("probes_in_run"),
        total("qdisc_bytes", run).cast("bigint").alias("passed_bytes"),
        total("qdisc_packets", run).cast("bigint").alias("passed_packets"),
        total("wire_bytes", run).cast("bigint").alias("wire_in_run"),
        total("drops", run).cast("bigint").alias("drops"),
        F.count(F.when(run, 1)).alias("rows"),
        *(
            part
            for name, scale in (
                ("asked_rate_bps", 1),
                ("asked_delay_ms", 1e6),
                ("asked_loss_ratio", 1e9),
                ("probe_delay_ms", 1e6),
            )
            for part in (
                F.sum(F.when(run, F.round(F.col(name) * F.lit(scale)).cast("bigint"))).alias(f"sum_{name}"),
                F.count(F.when(run, F.col(name))).alias(f"n_{name}"),
            )
        ),
    ]


def _one_way(way: str, row: Row) -> dict[str, Any]:
    def mean(name: str, scale: float) -> float | None:
        return row[f"sum_{name}"] / row[f"n_{name}"] / scale if row[f"n_{name}"] else None

    # A run without probes has none to take out; a capture that is missing stays undefined.
    wire = None if row["captured"] is None else row["captured"] - (row["probes"] or 0)
    in_run = None if row["wire_in_run"] is None else row["wire_in_run"] - (row["probes_in_run"] or 0)
    passed = row["passed_bytes"] if row["passed_bytes"] is not None else in_run
    offered = (row["drops"] or 0) + (row["passed_packets"] or 0)
    known = row["drops"] is not None and row["passed_packets"] is not None and offered > 0
    return {
        f"wire_bytes_{way}": wire,
        f"probe_bytes_{way}": row["probes"],
        f"link_rate_{way}_asked_bps": mean("asked_rate_bps", 1),
        f"link_rate_{way}_achieved_bps": passed * 8 / row["rows"]
        if passed is not None and row["rows"]
        else None,
        f"link_delay_{way}_asked_ms": mean("asked_delay_ms", 1e6),
        f"link_delay_{way}_achieved_ms": mean("probe_delay_ms", 1e6),
        f"link_loss_{way}_asked_ratio": mean("asked_loss_ratio", 1e9),
        f"link_loss_{way}_achieved_ratio": row["drops"] / offered if known else None,
    }
