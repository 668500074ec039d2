"""The result directory of a search: summary.json, and report.md with latency over load, and report.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from ivsim.load.capacity import Searched, Step
from ivsim.load.capacity_words import HEAD, head_of, notes, parts_of, result_of, rows, summary_of
from ivsim.load.saturation import Queue
from ivsim.report.style import BLUE, GREY, ORANGE, VERMILION, number
from ivsim.runs.versions import environment
from ivsim.study.charts import drawn
from ivsim.study.markdown import table
from ivsim.study.report import write
from schemas.json_files import write_json

CHART = "latency.svg"


def write_summary(directory: Path, searched: Searched, machine: dict[str, Any]) -> None:
    """Write summary.json of a search as far as it has come."""
    write_json(directory / "summary.json", summary_of(searched, machine), sort_keys=False)


def write_report(directory: Path, searched: Searched) -> Path:
    """Write everything but the runs; return the path of report.md."""
    facts = environment()
    write_summary(directory, searched, facts["machine"])
    machine = facts["machine"]
    result = result_of(searched)
    gib = machine["memory_bytes"] / 2**30
    head = (
        f"# The load that {searched.asked.options.protocol} {searched.asked.options.mode} carries on this machine\n\n"
        f"**{result.word}: {result.words}.**\n\n{head_of(searched)}. Service level: {searched.level.words}. Resolution"
        f" {searched.asked.bounds.resolution_ratio:g} of the load.\n\n*This machine*: {machine['processor']},"
        f" {machine['cores']} cores, {gib:.0f} GiB, {machine['system']}, kernel {machine['kernel']}; vehicles, link,"
        " servers and twin share it, so the figure is of all of them together and of no other machine."
    )
    steps = table([one.replace("\n", " ") for one in HEAD], rows(searched.steps))
    said = notes(searched.steps)
    why = "" if not said else "### Why steps failed\n\n" + "\n".join(f"- {line}" for line in said)
    charts = {}
    if any(one.end_to_end_latency_p99_ms is not None for one in searched.steps):
        caption = f"End-to-end latency over {searched.asked.raised}: a mark is a run, crossed out where it did not meet the level."
        charts[CHART] = (drawn(lambda axes: _latency(axes, searched, result.load)), caption)
    parts = [head, f"## Steps\n\n{steps}\n\n{why}", _parts_table(searched.steps)]
    return write(directory, parts, charts)


def _parts_table(steps: Sequence[Step]) -> str:
    names = parts_of(steps)
    if not names:
        return ""
    lines = [
        [str(index), f"{one.load:,}", *(number(one.counters.cores.get(name)) for name in names),
         number(one.counters.other_cores), number(one.counters.queue_drops)]
        for index, one in enumerate(steps, 1)
    ]  # fmt: skip
    heads = ["#", "load", *names, "other programs", "link queue drops"]
    queues = list(dict.fromkeys(name for one in steps for name in one.counters.queues))
    waiting = [
        [str(index), f"{one.load:,}", *(_waited(one.counters.queues.get(name)) for name in queues)]
        for index, one in enumerate(steps, 1)
    ]
    return (
        f"## CPU of each part, in cores\n\n{table(heads, lines)}\n\n## Messages that waited for each part\n\n"
        f"{table(['#', 'load', *queues], waiting)}\n\nMedians of the first and of the last third of the time that is judged."
        " Counts of the vehicles' logs are up to a second old."
    )


def _waited(queue: Queue | None) -> str:
    return number(None) if queue is None else f"{queue.begin:,.0f} to {queue.end:,.0f}"


def _latency(axes: Axes, searched: Searched, capacity: int | None) -> None:
    judged = [one for one in searched.steps if one.kind != "warm-up"]
    for name, colour, label in (
        ("end_to_end_latency_p50_ms", BLUE, "p50"),
        ("end_to_end_latency_p99_ms", ORANGE, "p99"),
    ):
        points = sorted(
            (one.load, getattr(one, name), one.verdict) for one in judged if getattr(one, name) is not None
        )
        axes.plot(
            [p[0] for p in points],
            [p[1] for p in points],
            color=colour,
            marker="o",
            markersize=4,
            label=label,
        )
        failed = [p for p in points if p[2] != "met"]
        axes.plot(
            [p[0] for p in failed], [p[1] for p in failed], color=VERMILION, marker="x", linestyle="none"
        )
    if capacity is not None:
        axes.axvline(capacity, color=GREY, linestyle=":", label=f"{capacity:,}")
    for one in searched.level.thresholds:
        if one.figure == "end_to_end_latency_p99_ms":
            axes.axhline(one.limit, color=ORANGE, linestyle="--", linewidth=0.8, label=one.text)
    axes.set(xlabel=searched.asked.raised, ylabel="end-to-end latency, ms", yscale="log")
    axes.legend(fontsize=8)
