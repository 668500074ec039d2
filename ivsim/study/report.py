"""`report.md` with its figures, and `report.html`, of a study from its results; every number is computed here."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from ivsim.report.page import STYLE
from ivsim.study import answers, pictures
from ivsim.study.figures_of_cells import STUDY_METRICS
from ivsim.study.levels import judge
from ivsim.study.model import cells_of
from ivsim.study.store import Store, minutes_of
from ivsim.study.summary import CellResult, results_of, scaled, written

MOST_BYTES: Final = 200_000


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def results(store: Store) -> list[CellResult]:
    """Return every cell of a store with what is known of it."""
    cells = cells_of(store.study, str(store.path / "study.json"), quick=store.quick)
    return results_of(store.all_kept(cells))


def write_report(store: Store, directory: Path) -> Path:
    """Write report.md, its figures and report.html into `directory`; return the path of report.md."""
    found = results(store)
    figures = pictures.of(store, found)
    return write(directory, sections(store, found), figures)


def write(directory: Path, parts: Sequence[str], figures: dict[str, tuple[str, str]]) -> Path:
    """Write the report's parts and figures (file name to SVG and caption) as Markdown and as one page."""
    directory.mkdir(parents=True, exist_ok=True)
    pictured = []
    for name, (svg, caption) in figures.items():
        (directory / name).write_text(svg)
        pictured.append(f"![{caption}]({name})\n\n*{caption}*")
    text = "\n\n".join([parts[0], *parts[1:2], "## Figures", *pictured, *parts[2:]]) + "\n"
    path = directory / "report.md"
    path.write_text(text)
    (directory / "report.html").write_text(page(text, {name: svg for name, (svg, _) in figures.items()}))
    return path


def sections(store: Store, found: Sequence[CellResult]) -> list[str]:
    """Return the parts of the report: the first two stand before the figures."""
    study = store.study
    head = f"# {study.title}\n\n{study.question}\n\n**{answers.of(store, found)}**"
    if store.quick:
        head += "\n\nA quick run: small samples, to see that it works."
    return [
        head,
        _tables(store, found),
        _levels(store, found),
        machine_section(store, found),
        caveats(store, found),
    ]


def _tables(store: Store, found: Sequence[CellResult]) -> str:
    study, parts = store.study, []
    for part, sweep in study.sweeps().items():
        axes = list(sweep.axes)
        heads = [
            *axes,
            *(f"{metric}, {unit}" if (unit := _unit(metric)) else metric for metric in study.metrics),
        ]
        rows = []
        for result in found:
            if result.cell.part == part:
                cells = [written(scaled(metric, result.interval(metric))[0]) for metric in study.metrics]
                rows.append([*(str(result.cell.values[axis]) for axis in axes), *cells])
        parts.append((f"### {part}\n\n" if part else "") + table(heads, rows))
    meanings = "\n".join(f"- `{name}`: {STUDY_METRICS[name].meaning}" for name in study.metrics)
    note = (
        "Estimate [95 % interval]: Student's t for means, Clopper-Pearson for ratios, percentile bootstrap for"
        " quantiles, over messages; a figure without brackets is of one run and has no interval."
    )
    return "## Results\n\n" + "\n\n".join(parts) + f"\n\n{note}\n\n{meanings}"


def _unit(metric: str) -> str:
    unit = STUDY_METRICS[metric].unit
    return {"ratio": "%", "1": ""}.get(unit, unit)


def _levels(store: Store, found: Sequence[CellResult]) -> str:
    judged = judge(store.study, found)
    if not judged:
        return ""
    rows = [[one.cell, one.level, one.problem or "met"] for one in judged]
    return "## Service levels\n\n" + table(["cell", "level", "verdict"], rows)


def link_checks(store: Store) -> list[list[str]]:
    """Return what the link was asked and what it did, over all sessions of the study, per direction and loss."""
    sums: dict[tuple[str, float], list[float]] = {}
    late, loads = [], []
    for directory in sorted((store.path / "sessions").glob("*")):
        about = json.loads((directory / "session.json").read_text())
        if "load_average" in about:
            loads.append(float(about["load_average"]))
        late.append(float(about["replay"].get("applied_late_max_ms", 0.0)))
        log = pq.read_table(directory / "link.parquet").to_pandas()
        log = log[(log["second"] >= 0) & log["qdisc_packets"].notna()]
        for (way, loss), rows in log.groupby(["direction", "asked_loss_ratio"]):
            entry = sums.setdefault((str(way), float(loss)), [0.0, 0.0, 0.0])
            lost = (rows["drops"] - rows["queue_drops"]).sum()
            entry[0] += float(lost)
            entry[1] += float(rows["qdisc_packets"].sum() + lost)
            entry[2] += float(rows["queue_drops"].sum())
    from ivsim.study.statistics import ratio_interval  # noqa: PLC0415 - beside its only use

    rows_out = []
    for (way, loss), (lost, packets, queue) in sorted(sums.items()):
        share = ratio_interval(int(lost), int(packets))
        inside = share.low is not None and share.high is not None and share.low <= loss <= share.high
        verdict = "pass" if inside else "off"
        rows_out.append(
            [
                way,
                f"{loss:.0%}",
                f"{packets:,.0f}",
                written(scaled("delivery_ratio", share)[0]),
                f"{queue:,.0f}",
                verdict,
            ]
        )
    if loads:
        rows_out.append(
            ["machine", "load", f"{len(loads)} sessions", f"{min(loads):.0f} to {max(loads):.0f}", "", ""]
        )
    if late:
        rows_out.append(
            ["both", "replay", f"{len(late)} sessions", f"latest step {max(late):.0f} ms late", "", ""]
        )
    return rows_out


def machine_section(store: Store, found: Sequence[CellResult]) -> str:
    """Return what the links did, the machine and the versions."""
    parts = []
    if checks := link_checks(store):
        head = [
            "direction",
            "loss asked",
            "packets",
            "loss seen by the kernel, %",
            "dropped by a full queue",
            "verdict",
        ]
        parts.append("## What the links did\n\n" + table(head, checks) + "\n\n" + LINK_WORDS)
    certificates = [
        (r.cell.name, c) for r in found for one in r.done if (c := one.figures.get("certificate"))
    ]
    if certificates:
        rows = [[name, str(c.get("verdict")), str(c.get("statement"))] for name, c in certificates]
        parts.append("## What the links did\n\n" + table(["cell", "certificate", "in words"], rows))
    machine, versions = store.head["machine"], store.head["versions"]
    gib = machine["memory_bytes"] / 2**30
    lines = [
        f"- {machine['processor']}, {machine['cores']} cores, {gib:.0f} GiB, {machine['system']}, kernel {machine['kernel']}",
        "- " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"- {minutes_of(store)}",
    ]
    return "\n\n".join([*parts, "## Machine and versions\n\n" + "\n".join(lines)])


LINK_WORDS: Final = (
    "Loss is counted where netem drops, over all vehicles and sessions; `pass` when the exact 95 % interval holds the"
    " ratio asked (so that one in twenty is off by chance)."
)


def caveats(store: Store, found: Sequence[CellResult]) -> str:
    """Return the study's caveats, and those that the results themselves give rise to."""
    lines = list(store.study.caveats)
    lags = [
        lag for r in found for one in r.done if (lag := one.figures.get("emission_lag_p99_ms")) is not None
    ]
    if lags:
        lags.sort()
        lines.append(
            f"Emission lag (due to sent), p99 per cell: median {lags[len(lags) // 2]:.1f} ms, worst {lags[-1]:.0f} ms;"
            " it contains CoAP's wait for the message before (NSTART = 1)."
        )
    drops = sum(int(one.figures.get("kernel_drops") or 0) for r in found for one in r.done)
    if drops:
        lines.append(f"The capture lost {drops} frames: bytes are missing.")
    failed = [(r.cell.name, r.reasons) for r in found if r.reasons]
    lines += [f"Cell {name} failed: {'; '.join(reasons)}" for name, reasons in failed]
    missing = [r.cell.name for r in found if not r.done and not r.reasons]
    if missing:
        lines.append(f"{len(missing)} cells have not been run: {', '.join(missing[:5])}.")
    return "## Caveats\n\n" + "\n".join(f"- {line}" for line in lines)


def page(text: str, figures: dict[str, str]) -> str:
    """Return Markdown of this module's own making as one self-contained page."""
    out, rows = [], []
    for block in text.split("\n\n"):
        rows = block.strip().split("\n")
        first = rows[0] if rows else ""
        if first.startswith("!["):
            name = first.rpartition("(")[2].rstrip(")")
            out.append(f"<figure>{figures.get(name, '')}</figure>")
        elif first.startswith("#"):
            level = len(first) - len(first.lstrip("#"))
            out.append(f"<h{level}>{_inline(first.lstrip('# '))}</h{level}>")
        elif first.startswith("| "):
            out.append(_html_table(rows))
        elif first.startswith("- "):
            out.append("<ul>" + "".join(f"<li>{_inline(row[2:])}</li>" for row in rows) + "</ul>")
        else:
            out.append(f"<p>{_inline(' '.join(rows))}</p>")
    title = html.escape(text.partition("\n")[0].lstrip("# "))
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style>"
        "</head><body>" + "\n".join(out) + "</body></html>\n"
    )


def _html_table(rows: Sequence[str]) -> str:
    cells = [[_inline(cell.strip()) for cell in row.strip("| ").split(" | ")] for row in rows]
    head = "".join(f"<th>{cell}</th>" for cell in cells[0])
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells[2:])
    return f"<table><tr>{head}</tr>{body}</table>"


def _inline(text: str) -> str:
    found = html.escape(text)
    for mark, tag in (("**", "b"), ("`", "code")):
        pieces = found.split(mark)
        found = "".join(p if k % 2 == 0 else f"<{tag}>{p}</{tag}>" for k, p in enumerate(pieces))
    return found


def head_of(path: Path) -> dict[str, Any]:
    """Return study.json of a directory of results."""
    return Store.open(path).head
