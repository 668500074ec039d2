"""The table a run ends with; it prints what metrics.json holds and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.report.style import number
from twin.metrics import HOPS, LATENCIES, METRICS, QUANTILES


def print_summary(console: Console, metrics: dict[str, Any], title: str, report: Path | None) -> None:
    """Print fates, latencies, bytes and the path of the report."""
    if metrics.get("partial"):
        console.print(
            Text(f"partial result: {metrics.get('partial_reason') or 'stopped early'}", style="bold yellow")
        )
    console.print(_fates(metrics, title))
    console.print(_latencies(metrics))
    console.print(_bytes_and_link(metrics))
    if report is not None:
        console.print(f"report: {report}", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _fates(metrics: dict[str, Any], title: str) -> Table:
    names = ("due", "delivered", "late", "lost", "unsent", "duplicates", "delivery_ratio")
    table = _table(title, *names)
    table.columns[0].justify = "right"
    table.add_row(*(number(metrics.get(name), "ratio" if name == "delivery_ratio" else "") for name in names))
    hops = [f"{metrics[f'lost_at_{hop}']} at {hop}" for hop in HOPS if metrics.get(f"lost_at_{hop}")]
    if hops:
        table.caption = "lost: " + ", ".join(hops)
    return table


def _latencies(metrics: dict[str, Any]) -> Table:
    table = _table("milliseconds", "", *QUANTILES)
    table.add_row("emission lag", "", "", number(metrics.get("emission_lag_p99_ms")), "")
    for name in LATENCIES:
        table.add_row(
            name.replace("_", " "), *(number(metrics.get(f"{name}_{quantile}_ms")) for quantile in QUANTILES)
        )
    return table


def _bytes_and_link(metrics: dict[str, Any]) -> Table:
    table = _table("bytes and link", "", "")
    rows = (
        ("wire bytes, uplink", "wire_bytes_uplink", "B"),
        ("wire bytes, downlink", "wire_bytes_downlink", "B"),
        ("overhead per delivered message", "overhead_bytes_per_message", "B"),
        ("goodput", "goodput_bps", "bit/s"),
        ("twin updates", "twin_updates", ""),
        ("clock drift over the run", "clock_drift_ms", "ms"),
    )
    for label, name, unit in rows:
        table.add_row(label, number(metrics.get(name), unit))
    for name, metric in METRICS.items():
        if name.startswith("link_") and name in metrics:
            table.add_row(
                name.removesuffix(f"_{metric.unit}").replace("_", " "), number(metrics[name], metric.unit)
            )
    return table
