"""The charts of a run, from the tables of its directory: those of its messages, its link, and its gateways' batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ivsim.report import charts
from ivsim.report.decisions import read_decisions
from ivsim.report.drawing import Charts
from ivsim.report.run_tables import Columns, at_edge, columns_of, topology_of
from ledger.definitions import RUN_STOPPED


def run_charts(directory: Path) -> Charts:
    """Return the charts of a run: as far as it has messages, a link, and batches that were chosen."""
    manifest = _manifest(directory)
    ledger = _became_due(directory)
    return (
        message_charts(manifest, ledger)
        | link_charts(manifest, columns_of(directory / "link.parquet"))
        | batch_charts(manifest, directory)
    )


def page_charts(directory: Path, part: str) -> Charts:
    """Return the charts of one part of a run's page, which has none of the fates where all messages were delivered."""
    manifest = _manifest(directory)
    if part == "batches":
        return batch_charts(manifest, directory)
    if part == "link":
        return link_charts(manifest, columns_of(directory / "link.parquet"))
    ledger = _became_due(directory)
    failed = bool(ledger) and bool(np.any(ledger["fate"] != "delivered"))
    return message_charts(manifest, ledger, fates=failed)


def _became_due(directory: Path) -> Columns:
    """Return what is drawn of the ledger, without the messages that were not due yet when the run stopped."""
    ledger = columns_of(directory / "ledger.parquet", charts.OF_LEDGER)
    if not ledger:
        return ledger
    due = ledger["unsent_reason"] != RUN_STOPPED
    return {name: values[due] for name, values in ledger.items()}


def _manifest(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    return found


def message_charts(manifest: dict[str, Any], ledger: Columns, *, fates: bool = True) -> Charts:
    """Return the charts of a run's messages, with that of their fates or without."""
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


def link_charts(manifest: dict[str, Any], link: Columns) -> Charts:
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


def batch_charts(manifest: dict[str, Any], directory: Path) -> Charts:
    """Return a chart for each gateway that chose its batches."""
    return {
        f"batches-{gateway}.svg": (
            charts.chosen_over_time(decisions, manifest["start_at_ns"]),
            f"How gateway {gateway} chose its batches, and what it knew of its link, at each decision",
        )
        for gateway, decisions in read_decisions(directory).items()
    }
