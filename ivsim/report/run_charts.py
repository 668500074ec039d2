"""The charts of a run, from the tables of its directory: those of its messages, and those of its link."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ivsim.report import charts
from ivsim.report.decisions import chosen_over_time, read_decisions
from ivsim.report.drawing import Charts
from ivsim.topologies import TOPOLOGIES, USUAL_TOPOLOGY


def run_charts(directory: Path) -> Charts:
    """Return the charts of a run: those of its messages and of its link, as far as it has any."""
    manifest = json.loads((directory / "manifest.json").read_text())
    ledger, link = (
        columns_of(directory / "ledger.parquet", charts.OF_LEDGER),
        columns_of(directory / "link.parquet"),
    )
    found = message_charts(manifest, ledger) | link_charts(manifest, link)
    for gateway, decisions in read_decisions(directory).items():
        caption = f"How gateway {gateway} chose its batches, and what it knew of its link, at each decision"
        found[f"batches-{gateway}.svg"] = (chosen_over_time(decisions, manifest["start_at_ns"]), caption)
    return found


def topology_of(manifest: dict[str, Any]) -> str:
    """Return the way that a run's messages took; results of earlier versions have the usual one."""
    return str(manifest["options"].get("topology", USUAL_TOPOLOGY))


def message_charts(manifest: dict[str, Any], ledger: charts.Columns, *, fates: bool = True) -> Charts:
    """Return the charts of a run's messages; that of their fates says nothing where all were delivered."""
    if not ledger or not len(ledger["fate"]):
        return {}
    topology = topology_of(manifest)
    by_fate: Charts = {
        "fates.svg": (
            charts.fates_by_hop(ledger),
            "Messages by fate, where each lost one was last seen, and who refused one",
        )
    }
    return (by_fate if fates else {}) | {
        "stages.svg": (
            charts.latency_distribution(ledger, topology),
            "Distribution of each stage's time over the messages that have both of its stamps",
        ),
        "latency.svg": (
            charts.latency_over_time(ledger, manifest["start_at_ns"], topology),
            "Latency of every message against the time it was due",
        ),
    }


def link_charts(manifest: dict[str, Any], link: charts.Columns) -> Charts:
    """Return the charts of a run's link: what was asked of it, and what passed; none where nothing was logged."""
    if not link or not len(link["second"]):
        return {}
    whose = "gateway" if at_edge(manifest["options"]) else "vehicle"
    return {
        "uplink.svg": (
            charts.asked_and_achieved(link, "uplink", whose),
            f"Uplink rate asked by the trace, and wire bytes that passed at the {whose}s' end",
        ),
        "downlink.svg": (
            charts.asked_and_achieved(link, "downlink", whose),
            "Downlink rate asked, and wire bytes that passed",
        ),
        "delay.svg": (
            charts.delay_asked_and_probed(link, whose),
            "Delay asked for, and what the probes saw",
        ),
    }


def columns_of(path: Path, names: Sequence[str] | None = None) -> charts.Columns:
    """Return columns of a table, all without names; {} where the run has no such table."""
    if not path.is_file():
        return {}
    table = pq.read_table(path, columns=None if names is None else list(names))
    return {name: _array(table.column(name)) for name in table.column_names}


def _array(column: Any) -> Any:
    """Return a column as numpy; whole numbers with gaps become floats with NaN, as numpy wants it."""
    return np.asarray(column.to_pandas())


def at_edge(options: dict[str, Any]) -> bool:
    """Say whether the links of a run are its gateways'."""
    topology = TOPOLOGIES.get(options.get("topology", ""))
    return topology is not None and topology.edge
