"""The one page of a run: it opens offline, and each number in it is read from the run directory."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ivsim.report import figures
from ivsim.report.style import number
from twin.metrics import METRICS

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem}
table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.dim{color:#555}
.warn{border-left:.35rem solid #D55E00;background:#fdf1ea;padding:.6rem 1rem}.good{border-left:.35rem solid #009E73;background:#eaf7f2;padding:.6rem 1rem}
figure{margin:1rem 0;background:#fff}figure svg{width:100%;height:auto}figcaption{color:#555}
.key{display:flex;flex-wrap:wrap;gap:1.5rem}.key div b{display:block;font-size:1.5rem}
summary{cursor:pointer}pre{overflow-x:auto;background:#f6f6f6;padding:.8rem}
@media print{body{max-width:none}}
"""


def write_page(directory: Path) -> Path:
    """Write `report.html` of a run directory from its files; return the path."""
    manifest = json.loads((directory / "manifest.json").read_text())
    metrics = json.loads((directory / "metrics.json").read_text())
    ledger = _columns(directory / "ledger.parquet")
    link = _columns(directory / "link.parquet")
    body = [
        _head(manifest),
        _warnings(manifest, metrics),
        _key_figures(metrics),
        _certificate(metrics),
    ]
    body += _figures(manifest, ledger, link)
    body += [_wire_table(_columns(directory / "wire_categories.parquet"))]
    body += [_live(metrics), _metrics_table(metrics), _manifest_section(manifest)]
    path = directory / "report.html"
    title = html.escape(f"ivsim run {manifest['run']}")
    path.write_text(
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body>"
        + "\n".join(body)
        + "</body></html>\n"
    )
    return path


def _columns(path: Path) -> figures.Columns:
    if not path.is_file():
        return {}
    table = pq.read_table(path)
    return {name: _array(table.column(name)) for name in table.column_names}


def _array(column: Any) -> Any:
    """Return a column as numpy; whole numbers with gaps become floats with NaN, as numpy wants it."""
    return np.asarray(column.to_pandas())


def _head(manifest: dict[str, Any]) -> str:
    options = manifest["options"]
    words = f"{options['protocol']} {options['mode']}, {options['vehicles']} vehicles, one message each {options['interval_s']:g} s"
    words += f" for {options['duration_s']:g} s, {options['format']}, link {manifest['link'].get('name', options['link'])}"
    return (
        f"<h1>ivsim run {html.escape(manifest['run'])}</h1><p class='dim'>{html.escape(words)}; trace "
        f"{html.escape(str(options['trace']))}, loss ratio {options['loss_ratio']:g}, seed {options['seed']}</p>"
    )


def _warnings(manifest: dict[str, Any], metrics: dict[str, Any]) -> str:
    lines = list(manifest.get("warnings", []))
    if metrics.get("partial"):
        lines.insert(
            0, f"This result is partial: {metrics.get('partial_reason') or 'the run was stopped early'}."
        )
    certificate = metrics.get("certificate") or {}
    if certificate.get("verdict") == "off":
        lines.append(str(certificate["statement"]))
    drift = metrics.get("clock_drift_ms")
    if drift is not None and abs(drift) > 1.0:
        lines.append(f"The wall clock moved {drift:.3f} ms against the monotonic clock during the run.")
    return "".join(f"<p class='warn' role='alert'>{html.escape(line)}</p>" for line in lines)


def _key_figures(metrics: dict[str, Any]) -> str:
    names = (
        "due",
        "delivery_ratio",
        "end_to_end_latency_p50_ms",
        "end_to_end_latency_p99_ms",
        "overhead_bytes_per_message",
    )
    cells = "".join(
        f"<div><b>{number(metrics.get(name), METRICS[name].unit)}</b><span class='dim'>{html.escape(name)}</span></div>"
        for name in names
        if name in METRICS
    )
    return f"<section class='key'>{cells}</section>"


def _certificate(metrics: dict[str, Any]) -> str:
    certificate = metrics.get("certificate")
    if not certificate:
        return ""
    verdict = certificate.get("verdict")
    kind = "good" if verdict == "pass" else "warn"
    rows = "".join(
        f"<tr><td>{html.escape(str(c.get('parameter')))}</td><td>{html.escape(str(c.get('direction', '')))}</td>"
        f"<td class='n'>{html.escape(str(c.get('asked')))}</td><td class='n'>{html.escape(str(c.get('achieved')))}</td>"
        f"<td class='n'>{html.escape(str(c.get('tolerance')))}</td><td>{html.escape(str(c.get('verdict')))}</td></tr>"
        for c in certificate.get("checks", [])
    )
    return (
        f"<h2>What the link did</h2><p class='{kind}'>Fidelity certificate: {html.escape(str(verdict))}. "
        f"{html.escape(str(certificate.get('statement', '')))}</p><table><tr><th>parameter<th>direction<th>asked<th>achieved"
        f"<th>tolerance<th>verdict</tr>{rows}</table>"
    )


def _figures(manifest: dict[str, Any], ledger: figures.Columns, link: figures.Columns) -> list[str]:
    parts: list[tuple[str, str]] = []
    if ledger and len(ledger["fate"]):
        parts += [
            ("Messages by fate, and the hop where each lost one was last seen", figures.fates_by_hop(ledger)),
            (
                "Distribution of each stage's time over the messages that have both of its stamps",
                figures.latency_distribution(ledger),
            ),
            (
                "Latency of every message against the time it was due",
                figures.latency_over_time(ledger, manifest["start_at_ns"]),
            ),
        ]
    if link and len(link["second"]):
        parts += [
            (
                "Uplink rate asked by the trace, and wire bytes that passed at the vehicles' end",
                figures.asked_and_achieved(link, "uplink"),
            ),
            ("Downlink rate asked, and wire bytes that passed", figures.asked_and_achieved(link, "downlink")),
            ("Delay asked for, and what the probes saw", figures.delay_asked_and_probed(link)),
        ]
    return [
        f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, picture in parts
    ]


def _wire_table(categories: figures.Columns) -> str:
    """Return where every captured byte went, by purpose and direction; frames whole, link layer included."""
    if not categories or not len(categories["bytes"]):
        return ""
    purposes = sorted(
        set(categories["purpose"]), key=lambda p: -categories["bytes"][categories["purpose"] == p].sum()
    )
    rows = ""
    for purpose in purposes:
        of_purpose = categories["purpose"] == purpose
        cells = [
            int(categories["bytes"][of_purpose & (categories["direction"] == way)].sum())
            for way in ("uplink", "downlink")
        ]
        rows += (
            f"<tr><td>{html.escape(str(purpose))}</td>"
            + "".join(f"<td class='n'>{number(c)}</td>" for c in cells)
            + "</tr>"
        )
    return (
        "<h2>Where the bytes went</h2><p class='dim'>Every frame captured at the vehicles' end, link layer included, from "
        "connecting to taking leave; their sum is the capture's.</p>"
        f"<table><tr><th>purpose<th>uplink, B<th>downlink, B</tr>{rows}</table>"
    )


def _live(metrics: dict[str, Any]) -> str:
    """Return whether the streaming job, at its end, had counted what the ledger counts."""
    live = metrics.get("live")
    if not live:
        return ""
    if "counts_compared" not in live:
        words = f"The live figures were {live['verdict']}: nothing is compared."
    else:
        words = f"{live['counts_compared']} counts of the streaming job's last figures compared with ledger and link log: they {live['verdict']}."
    rows = "".join(
        f"<tr><td>{html.escape(str(d['vehicle_id']))}</td><td>{html.escape(str(d['figure']))}</td>"
        f"<td class='n'>{number(d['live'])}</td><td class='n'>{number(d['ledger'])}</td></tr>"
        for d in live.get("differences", [])
    )
    table = f"<table><tr><th>vehicle<th>figure<th>live<th>ledger</tr>{rows}</table>" if rows else ""
    kind = "good" if live["verdict"] == "agree" else "warn"
    return f"<h2>Live figures and ledger</h2><p class='{kind}'>{html.escape(words)}</p>{table}"


def _metrics_table(metrics: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td class='n' data-metric='{html.escape(name)}' data-value='{html.escape(json.dumps(metrics.get(name)))}'>{number(metrics.get(name), metric.unit)}</td>"
        f"<td class='dim'>{html.escape(metric.population)}</td><td class='dim'>{html.escape(metric.meaning)}</td></tr>"
        for name, metric in METRICS.items()
        if name in metrics
    )
    return f"<h2>Every figure</h2><table><tr><th>metric<th>value<th>population<th>meaning</tr>{rows}</table>"


def _manifest_section(manifest: dict[str, Any]) -> str:
    text = html.escape(json.dumps(manifest, indent=2, sort_keys=True))
    return f"<h2>How it was made</h2><details><summary>manifest</summary><pre>{text}</pre></details>"
