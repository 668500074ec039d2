"""The table a run ends with; it prints what metrics.json holds and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.report.style import PART_COLUMNS, latency_words, number, window_words
from ivsim.topologies import TOPOLOGIES, USUAL_TOPOLOGY
from ledger.metrics import FATES, HOPS, METRICS, QUANTILES, REFUSING_HOPS


def print_summary(
    console: Console, metrics: dict[str, Any], title: str, report: Path | None, topology: str = USUAL_TOPOLOGY
) -> None:
    """Print fates, latencies, bytes and the path of the report; `topology` is the run's."""
    console.print(_fates(metrics, title))
    if metrics.get("parts"):
        console.print(_parts(metrics["parts"]))
    console.print(_latencies(metrics, topology))
    console.print(_bytes_and_link(metrics, topology))
    if metrics.get("query"):
        console.print(_query(metrics["query"]))
    console.print(certificate_line(metrics))
    for agent in metrics.get("agents") or []:
        console.print(_agent(agent), soft_wrap=True)
    for share in metrics.get("shares") or []:
        console.print(_share(share), soft_wrap=True)
    console.print(_validity(metrics))
    if report is not None:
        console.print(f"report: {report}", soft_wrap=True)


def certificate_line(metrics: dict[str, Any]) -> Text:
    """Return what the link proved of itself, in a line."""
    certificate = metrics.get("certificate") or {}
    verdict = certificate.get("verdict", "none")
    style = {"pass": "green", "off": "bold red"}.get(verdict, "yellow")
    return Text.assemble(
        "link: ", (verdict, style), f" {certificate.get('statement', '').partition(' Probes cost')[0]}"
    )


def _agent(agent: dict[str, Any]) -> Text:
    """Return what an agent had, and how well its times are known."""
    within_ms = agent["clock_uncertainty_ms"]
    known = (
        "its times by an unknown clock" if within_ms is None else f"its times to within {within_ms:.3f} ms"
    )
    lost = ("", "") if agent["lost"] is None else (f"; lost: {agent['lost']}", "bold yellow")
    return Text.assemble(f"agent {agent['address']}: {agent['vehicles']} vehicles, {known}", lost)


def _share(share: dict[str, Any]) -> Text:
    """Return who sent a share of the fleet, and how far its clock was from UTC at most."""
    if share["run"] is None:
        return Text.assemble(
            f"share {share['share']}: {share['vehicles']} vehicles, ", ("missing", "bold yellow")
        )
    error_ms = share["clock_error_ms"]
    clock = "its clock kept by nobody" if error_ms is None else f"its clock within {error_ms:,.1f} ms of UTC"
    return Text(f"share {share['share']}: {share['vehicles']} vehicles, {clock}; {share['run']}")


def _query(found: dict[str, Any]) -> str:
    """Return which share of the messages due a query answered in time."""
    return (
        f"query {found['name']}: {number(found['answers'])} answers, {number(found['answers_in_time_ratio'], 'ratio')} of the"
        f" messages due within {found['limit_ms']:g} ms"
    )


def _validity(metrics: dict[str, Any]) -> Text:
    """Return whether the figures may be used, and why not."""
    validity = metrics.get("validity") or {}
    verdict = validity.get("verdict", "unknown")
    style = {"valid": "green", "invalid": "bold red"}.get(verdict, "bold yellow")
    causes = "; ".join(cause["words"] for cause in validity.get("causes", []))
    return Text.assemble("run: ", (verdict, style), f": {causes}" if causes else "")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _fates(metrics: dict[str, Any], title: str) -> Table:
    # What hardly ever happens takes no room while it has not.
    rare = {"refused", "unknown"}
    fates = [fate for fate in FATES if fate not in rare or metrics.get(fate)]
    names = ("due", *fates, "duplicates", "delivery_ratio")
    table = _table(title, *(name.replace("_", "\n") for name in names))
    if len(fates) > len(FATES) - len(rare):
        table.padding = 0  # all columns fit into 80 characters
    table.columns[0].justify = "right"
    table.add_row(*(number(metrics.get(name), "ratio" if name == "delivery_ratio" else "") for name in names))
    lost = [f"{metrics[f'lost_at_{hop}']} at {hop}" for hop in HOPS if metrics.get(f"lost_at_{hop}")]
    refused = [
        f"{metrics[f'refused_by_{hop}']} by {hop}"
        for hop in REFUSING_HOPS
        if metrics.get(f"refused_by_{hop}")
    ]
    lines = [
        _window(metrics),
        *(f"{fate}: {', '.join(where)}" for fate, where in (("lost", lost), ("refused", refused)) if where),
    ]
    table.caption = "\n".join(line for line in lines if line)
    table.caption_justify = "left"
    return table


def _parts(parts: list[dict[str, Any]]) -> Table:
    """Return what each protocol of a mix came to."""
    heads = ("protocol\nand mode", *(head.replace("_", "\n") for head, _, _ in PART_COLUMNS))
    table = _table("by protocol", *heads)
    table.padding = 0
    for part in parts:
        values = (number(part[name], unit) for _, name, unit in PART_COLUMNS)
        table.add_row(f"{part['protocol']} {part['mode']}", *values)
    return table


def _window(metrics: dict[str, Any]) -> str:
    """Return which messages the table counts; "" where the window is not known."""
    if (words := window_words(metrics)) is None:
        return ""
    return f"counted: {words}"


def _latencies(metrics: dict[str, Any], topology: str) -> Table:
    table = _table("milliseconds", "", *QUANTILES)
    table.add_row("emission lag", "", "", number(metrics.get("emission_lag_p99_ms")), "")
    for name, words in latency_words(topology).items():
        values = (number(metrics.get(f"{name}_{quantile}_ms")) for quantile in QUANTILES)
        table.add_row(words, *values)
    return table


def _bytes_and_link(metrics: dict[str, Any], topology: str) -> Table:
    table = _table("bytes and link", "", "")
    # Bytes are of all seconds after the warm-up. A run that was stopped early counts no message yet, though some have arrived.
    whose = "delivered message" if metrics.get("due") != 0 else "message that arrived"
    rows = (
        ("wire bytes, uplink", "wire_bytes_uplink", "B"),
        ("wire bytes, downlink", "wire_bytes_downlink", "B"),
        (f"overhead per {whose}", "overhead_bytes_per_message", "B"),
        ("goodput", "goodput_bps", "bit/s"),
        *([("twin updates", "twin_updates", "")] if TOPOLOGIES[topology].twins else []),
        ("clock drift over the run", "clock_drift_ms", "ms"),
    )
    for label, name, unit in rows:
        table.add_row(label, number(metrics.get(name), unit))
    for name, metric in METRICS.items():
        if name.startswith("link_") and name in metrics:
            value = number(metrics[name], metric.unit)
            if _unlimited(name, metrics):
                value = "unlimited"
            table.add_row(name.removesuffix(f"_{metric.unit}").replace("_", " "), value)
    return table


def _unlimited(name: str, metrics: dict[str, Any]) -> bool:
    """Return whether a rate was asked of the other direction alone: an emulated link, whose trace does not limit this one."""
    ways = ("link_rate_uplink_asked_bps", "link_rate_downlink_asked_bps")
    return name in ways and metrics[name] is None and any(metrics.get(way) is not None for way in ways)
