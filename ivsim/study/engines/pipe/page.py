"""The page of one measurement: it opens offline, and each number in it is read from the directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from markupsafe import Markup

from ivsim.report.drawing import Drawing
from ivsim.report.html import rendered
from ivsim.report.page import certificate_table, decided_by_host
from ivsim.report.style import BLUE, GREEN, GREY, ORANGE, VERMILION, badge, number, title_of
from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import PIPE_METRICS, STAGES
from ivsim.study.engines.pipe.platforms import platform_named
from simulator.links import DIRECT

OPEN_LOOP: Final = ("consumed", "lost", "latency_p50_ms", "latency_p99_ms", "client_cpu_us")
FULL_SPEED: Final = ("consumed", "lost", "records_per_s", "payload_mb_per_s", "client_cpu_us")
_COLOURS: Final = {
    "emission lag": GREY,
    "acknowledgement": ORANGE,
    "latency": BLUE,
    "transit": GREEN,
}
# Beyond this many points a curve looks the same and only takes room.
MOST_POINTS: Final = 2_000


def write_page(directory: Path) -> Path:
    """Write `report.html` of a directory from its files; return the path."""
    manifest = json.loads((directory / "manifest.json").read_text())
    metrics = json.loads((directory / "metrics.json").read_text())
    options = manifest["options"]
    key = FULL_SPEED if _at_full_speed(options) else OPEN_LOOP
    path = directory / "report.html"
    text = rendered(
        "pipe.html",
        title=f"ivsim pipe {manifest['run']}",
        head=head(options),
        badges=[("run", *badge(metrics["validity"]["verdict"]))],
        warnings=warnings(metrics),
        notes=[],
        key_figures=[
            (title_of(name, PIPE_METRICS[name].unit), number(metrics[name], PIPE_METRICS[name].unit))
            for name in key
        ],
        fates=[(fate, number(metrics[fate])) for fate in FATES],
        partitions=[
            [number(one[name]) for name in ("partition", "arrivals", "duplicates", "reordered")]
            for one in manifest["partitions"]
        ],
        refusals=_refusals(manifest),
        figures=_figures(directory, manifest, metrics),
        metrics=[
            (metric, json.dumps(metrics[name]), number(metrics[name], metric.unit))
            for name, metric in PIPE_METRICS.items()
        ],
        settings=[
            (name, "as fast as it goes" if value is None else value) for name, value in options.items()
        ],
        certificate=certificate_table(metrics),
        load=f"{manifest['load_before'][0]:.1f} before, {manifest['load_after'][0]:.1f} after",
        host=decided_by_host(manifest),
        manifest=json.dumps(manifest, indent=2, sort_keys=True),
    )
    path.write_text(text)
    return path


def _at_full_speed(options: dict[str, Any]) -> bool:
    return options["rate"] is None and options.get("load_ratio") is None


def head(options: dict[str, Any]) -> str:
    """Return what was measured, in a line."""
    if _at_full_speed(options):
        speed = "as fast as it goes"
    elif options["rate"] is None:
        speed = f"{options['load_ratio']:g} of the records/s at full speed due"
    else:
        speed = f"{options['rate']:g} records/s due"
    more = (
        [f"{options['brokers']} brokers, replication {options['replication']}"]
        if options["brokers"] > 1
        else []
    )
    if options["min_insync"] > 1:
        more.append(f"{options['min_insync']} in sync at least")
    if options["security"] != "plain":
        more.append(options["security"].upper())
    if options["link"]:
        across = f"link {options['link']}"
        if options["link"] != DIRECT:
            rtt = "the trace's RTT" if options["rtt"] is None else f"RTT {options['rtt']} ms"
            across += f", trace {options['trace']}, {rtt}, loss ratio {options['loss_ratio']:g}"
        more.append(f"{across}, {options['tcp']}")
    if options["kill"]:
        more.append(f"kill {options['kill']}")
    # What a platform does not obey was not so.
    obeyed = platform_named(options["platform"]).settings
    words = {
        "codec": f"codec {options['codec']}",
        "acks": f"acks {options['acks']}",
        "linger_ms": f"linger {options['linger_ms']:g} ms",
        "durability": f"durability {options['durability']}",
    }
    told = ", ".join(text for setting, text in words.items() if setting in obeyed)
    return (
        f"{options['platform']}, {options['record']} in {options['format']} ({options['content']}), {speed} for"
        f" {options['duration_s']:g} s, {options['producers']} producers, {options['partitions']} partitions,"
        f" {options['consumers']} consumers; {told + '; ' if told else ''}profile {options['profile']}, seed"
        f" {options['seed']}{''.join(f'; {words}' for words in more)}"
    )


def warnings(metrics: dict[str, Any]) -> list[str]:
    """Return why the figures may not be used as they stand; none where they may."""
    validity = metrics["validity"]
    causes = "; ".join(cause["words"] for cause in validity["causes"])
    return [] if validity["verdict"] == "valid" else [f"This measurement is {validity['verdict']}: {causes}."]


def _refusals(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    found: dict[str, int] = {}
    for one in manifest["producers"]:
        for problem, count in one["refusals"].items():
            found[problem] = found.get(problem, 0) + count
    return [(problem, number(count)) for problem, count in found.items()]


def _figures(directory: Path, manifest: dict[str, Any], metrics: dict[str, Any]) -> list[tuple[str, Markup]]:
    parts = [("CPU time of the stages by record, of the threads that do them", _stages(metrics))]
    delays = _delays(directory, manifest)
    if delays:
        words = "Delays of the records due after the warm-up: share of records at or below"
        parts.insert(0, (words, _distribution(delays)))
    # matplotlib has escaped what it writes.
    return [(caption, Markup(drawing.svg())) for caption, drawing in parts]  # noqa: S704


def _delays(directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    table = pq.read_table(directory / "samples.parquet")
    options = manifest["options"]
    warm_at_ns = manifest["start_at_ns"] + round(options["warmup_s"] * 1e9)
    due, emitted, acknowledged, received = (
        np.asarray(table.column(f"{name}_at_ns").fill_null(0))
        for name in ("due", "emitted", "acknowledged", "received")
    )
    warm = due >= warm_at_ns
    if _at_full_speed(options):
        pairs = {"transit": (received, emitted)}
    else:
        pairs = {
            "emission lag": (emitted, due),
            "acknowledgement": (acknowledged, due),
            "latency": (received, due),
        }
    found = {
        name: (later - earlier)[warm & (later > 0) & (earlier > 0)] / 1e6
        for name, (later, earlier) in pairs.items()
    }
    return {name: values for name, values in found.items() if values.size}


def _distribution(delays: dict[str, Any]) -> Drawing:
    def draw(axes: Any) -> None:
        for name, values in delays.items():
            share = np.linspace(0, 1, min(values.size, MOST_POINTS))
            ordered = np.quantile(values, share, method="inverted_cdf")
            axes.step(np.maximum(ordered, 0.01), share, where="post", label=name, color=_COLOURS[name])
        axes.set(xscale="log", xlabel="ms", ylabel="share of records", ylim=(0, 1.01))
        axes.legend(loc="lower right")

    return Drawing(draw)


def _stages(metrics: dict[str, Any]) -> Drawing:
    def draw(axes: Any) -> None:
        known = [(stage, metrics[f"{stage}_us"]) for stage in STAGES]
        shown = [(stage, value) for stage, value in known if value is not None]
        names, values = [stage for stage, _ in shown], [value for _, value in shown]
        bars = axes.barh(names, values, color=[VERMILION if name in STAGES[:3] else BLUE for name in names])
        axes.bar_label(bars, labels=[number(float(value)) for value in values], padding=3)
        axes.invert_yaxis()
        axes.set(xlabel="µs of CPU time by record")

    return Drawing(draw)
