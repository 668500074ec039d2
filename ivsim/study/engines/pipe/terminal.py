"""The table that `ivsim pipe` ends with; it prints what metrics.json holds and nothing else, in 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.report.style import number
from ivsim.report.terminal import certificate_line
from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import STAGES
from ivsim.study.engines.pipe.site import WAYS
from ledger.metrics import QUANTILES


def print_summary(console: Console, metrics: dict[str, Any], title: str, report: Path | None) -> None:
    """Print fates, delays or speed, what a record costs, and the path of the report."""
    console.print(_fates(metrics, title))
    console.print(_delays(metrics) if metrics["records_per_s"] is None else _speed(metrics))
    console.print(_costs(metrics))
    if "certificate" in metrics:
        console.print(certificate_line(metrics))
    console.print(_validity(metrics))
    if report is not None:
        console.print(f"report: {report}", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place or column else "left")
    return table


def _fates(metrics: dict[str, Any], title: str) -> Table:
    names = ("produced", *FATES, "duplicates", "reordered")
    table = _table(title, *names)
    table.padding = (0, 0)
    table.add_row(*(number(metrics[name]) for name in names))
    return table


def _delays(metrics: dict[str, Any]) -> Table:
    table = _table("milliseconds", "", *QUANTILES)
    for name in ("emission_lag", "acknowledgement", "latency"):
        table.add_row(name.replace("_", " "), *(number(metrics[f"{name}_{q}_ms"]) for q in QUANTILES))
    return table


def _speed(metrics: dict[str, Any]) -> Table:
    table = _table("as fast as it goes", "", "")
    table.add_row("records/s", number(metrics["records_per_s"]))
    table.add_row("payload", number(metrics["payload_mb_per_s"], "MB/s"))
    table.add_row("transit, median: a queue, no latency", number(metrics["transit_p50_ms"], "ms"))
    return table


def _costs(metrics: dict[str, Any]) -> Table:
    table = _table("by record", "", "")
    for who in ("producer", "consumer", "platform"):
        found = (number(metrics[f"{who}_cpu_us"], "us CPU"), number(metrics[f"{who}_peak_mib"], "MiB"))
        table.add_row(who, ", ".join(found))
    stages = [(stage, metrics[f"{stage}_us"]) for stage in STAGES]
    table.add_row(
        "stages, us CPU",
        ", ".join(f"{stage} {number(value)}" for stage, value in stages if value is not None),
    )
    across = [metrics[f"link_bytes_{way}"] for way in WAYS]
    if None not in across:
        table.add_row("bytes across the link, up and down", ", ".join(map(number, across)))
    names = {"payload_bytes": "payload", "wire_bytes": "sent", "stored_bytes": "on disk"}
    sizes = ", ".join(f"{words} {number(metrics[name])}" for name, words in names.items())
    table.add_row("bytes", sizes)
    table.add_row("records of a batch", number(metrics["batch_records"]))
    if metrics["outage_s"] is not None:
        table.add_row("from the kill until it was back", number(metrics["outage_s"], "s"))
    return table


def _validity(metrics: dict[str, Any]) -> Text:
    validity = metrics["validity"]
    style = {"valid": "green", "invalid": "bold red"}.get(validity["verdict"], "bold yellow")
    causes = "; ".join(cause["words"] for cause in validity["causes"])
    return Text.assemble("measurement: ", (validity["verdict"], style), f": {causes}" if causes else "")
