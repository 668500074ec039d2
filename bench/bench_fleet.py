"""What a run costs as fleets, rates and runs grow: figures, CPU a message and memory of each part; whole runs on one testbed.

python -m bench.bench_fleet                                       small sizes, some minutes
python -m bench.bench_fleet --full                                vehicles to 15,000, messages to 1,080,000, rates to 2,000/s
python -m bench.bench_fleet vehicles rates --full --repeats 3     some tables alone, medians of three

Each table varies one thing: `vehicles` at one rate, `messages` by the length of a run, `rates` on an emulated link,
`direct` the same without one. A run that does not count comes first, and again where Spark's session is a new one.
A row is marked * where the twin took fewer than 98 % of the messages due meanwhile: its costs are those of a system that
falls behind. Figures: delivery ratio; p99 of emission lag, p50 and p99 of processing delay and of end-to-end latency, the
latest change of the link, in ms; `start` from the command to the first message and `end` from the last arrival to the
report, in s. Run it on a machine that does nothing else: `other` is what other programs used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ivsim.load.verdict import first_word
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.counters import Sample, Sampler
from ivsim.runs.live_figures import by_kind
from ivsim.runs.processes import session_config
from ivsim.runs.testbed import Testbed

WARMUP_S = 5.0
LOSS_TIMEOUT_S = 60.0
BEHIND = 0.98
NAMES = {"mosquitto": "broker", "gateway": "gatew.", "capture": "capt."}
ORDER = (
    "all",
    "sender",
    "router",
    "replay",
    "broker",
    "gatew.",
    "capt.",
    "kafka",
    "spark",
    "runner",
    "other",
)


class Size(NamedTuple):
    """One row: what is run."""

    vehicles: int
    messages_per_s: float
    measured_s: float
    link: str

    def options(self) -> RunOptions:
        return run_options(
            vehicles=self.vehicles, interval_s=self.vehicles / self.messages_per_s, link=self.link,
            duration_s=WARMUP_S + self.measured_s, warmup_s=WARMUP_S, loss_timeout_s=LOSS_TIMEOUT_S,
        )  # fmt: skip


class Cost(NamedTuple):
    """What one run came to; None is not measured."""

    word: str
    behind: bool
    figures: dict[str, float | None]
    cpu_us: dict[str, float]
    memory_mb: dict[str, float]


SMALL = {
    "vehicles": [Size(vehicles, 50, 10, "auto") for vehicles in (10, 50)],
    "messages": [Size(50, 50, seconds, "auto") for seconds in (10, 20)],
    "rates": [Size(50, rate, 10, "auto") for rate in (50, 100)],
    "direct": [Size(50, 100, 10, "direct")],
}
FULL = {
    "vehicles": [Size(vehicles, 300, 60, "auto") for vehicles in (100, 500, 1_000, 5_000, 15_000)],
    "messages": [Size(500, 300, seconds, "auto") for seconds in (34, 334, 3_600)],
    "rates": [Size(500, rate, 60, "auto") for rate in (100, 300, 500, 1_000)],
    "direct": [Size(500, rate, 60, "direct") for rate in (20, 300, 1_000, 2_000)],
}
FIGURES = {
    "ratio": "delivery_ratio",
    "lag99": "emission_lag_p99_ms",
    "proc50": "processing_delay_p50_ms",
    "proc99": "processing_delay_p99_ms",
    "e2e50": "end_to_end_latency_p50_ms",
    "e2e99": "end_to_end_latency_p99_ms",
}
LINK_LATE = "link"
TIMES = {"start": "command_to_first_message_s", "end": "drain_to_report_s"}


def main() -> int:
    """Return 0 when every run came to figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", default=list(SMALL), help=f"of {', '.join(SMALL)}")
    parser.add_argument("--full", action="store_true", help="large sizes: some hours")
    parser.add_argument(
        "--repeats", type=int, default=1, help="runs of a row; what is printed is their median"
    )
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.tables if name not in SMALL]:
        parser.error(f"no table {unknown[0]}: there are {', '.join(SMALL)}")
    if chosen.repeats < 1:
        parser.error(f"--repeats {chosen.repeats}: at least 1")
    sizes = FULL if chosen.full else SMALL
    failed = False
    with tempfile.TemporaryDirectory() as base, Testbed(Path(base)) as testbed:
        stand = Stand(testbed, Path(base))
        for name in chosen.tables:
            rows = [(size, [stand.run(size) for _ in range(chosen.repeats)]) for size in sizes[name]]
            failed |= any(one is None for _, costs in rows for one in costs)
            print("\n".join(table(name, rows)), flush=True)
    return int(failed)


class Stand:
    """Runs one size after the other on a testbed that is warm."""

    def __init__(self, testbed: Testbed, base: Path) -> None:
        self._testbed, self._base = testbed, base
        self._runs = 0
        self._session: dict[str, Any] | None = None

    def run(self, size: Size) -> Cost | None:
        """Return what a run came to; None without figures, which is said."""
        options = size.options()
        if session_config(options) != self._session:
            self._session = session_config(options)
            self._once(size._replace(measured_s=min(size.measured_s, 15.0)).options(), "warm-up")
        return self._once(options, "measured")

    def _once(self, options: RunOptions, what: str) -> Cost | None:
        self._runs += 1
        with Sampler() as sampler, tempfile.TemporaryDirectory(dir=self._base) as output:
            outcome = self._testbed.run(options, Path(output), disturb=sampler)
            word, reasons = first_word(outcome.metrics)
            per_s = options.vehicles / options.interval_s
            said = f"{word}{f': {reasons}' if reasons else ''}{f': {outcome.error}' if outcome.error else ''}"
            print(
                f"  run {self._runs}, {what}: {options.vehicles:,} vehicles, {per_s:g}/s, {said}",
                file=sys.stderr,
            )
            if outcome.signal is not None:
                raise KeyboardInterrupt
            if not outcome.metrics or outcome.directory is None:
                return None
            return cost(word, options, outcome.metrics, timings(outcome.directory), sampler.samples)


def timings(directory: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((directory / "manifest.json").read_text())["timings_s"]
    return found


def cost(
    word: str,
    options: RunOptions,
    metrics: dict[str, Any],
    took_s: dict[str, float],
    samples: Sequence[Sample],
) -> Cost:
    inside = [one for one in samples if options.warmup_s <= one.at_s <= options.duration_s]
    cpu_us: dict[str, float] = {}
    behind = False
    if len(inside) >= 2:
        first, last = inside[0], inside[-1]
        due = (last.at_s - first.at_s) * options.vehicles / options.interval_s
        spent_s = together({name: last.cpu_s[name] - first.cpu_s.get(name, 0.0) for name in last.cpu_s})
        all_s = sum(spent_s.values())
        spent_s = {"all": all_s, **spent_s, "other": max(0.0, last.busy_s - first.busy_s - all_s)}
        cpu_us = {name: one / due * 1e6 for name, one in spent_s.items()}
        behind = taken_ratio(first, last, options.vehicles / options.interval_s) < BEHIND
    memory = [together(one.memory_bytes) for one in samples]
    most = {name: max(one.get(name, 0) for one in memory) / 1e6 for one in memory[-1:] for name in one}
    figures = {head: metrics.get(name) for head, name in FIGURES.items()}
    figures[LINK_LATE] = (metrics.get("replay") or {}).get("applied_late_max_ms")
    figures |= {head: took_s.get(name) for head, name in TIMES.items()}
    return Cost(word, behind, figures, cpu_us, most)


def taken_ratio(first: Sample, last: Sample, messages_per_s: float) -> float:
    """Return what the twins took between two samples, as a share of the messages due between the times that these counts are of.

    0 where no later count has come.
    """
    began_s, ended_s = (one.at_s if one.in_twin_at_s is None else one.in_twin_at_s for one in (first, last))
    due = (ended_s - began_s) * messages_per_s
    return ((last.in_twin or 0) - (first.in_twin or 0)) / due if due > 0 else 0.0


def together(of_parts: Mapping[str, float]) -> dict[str, float]:
    """Return the sums over parts of one kind, by the short names of the tables."""
    return {NAMES.get(kind, kind): value for kind, value in by_kind(of_parts).items()}


def table(name: str, rows: Sequence[tuple[Size, Sequence[Cost | None]]]) -> Iterator[str]:
    """Yield the lines of a growth table: figures, CPU and memory."""
    known = [(size, [one for one in costs if one is not None]) for size, costs in rows]
    yield f"\n{name}: MQTT QoS 1, {os.cpu_count()} cores"
    parts: dict[str, None] = {}
    memory: dict[str, None] = {}
    for _, costs in known:
        for one in costs:
            parts |= dict.fromkeys(one.cpu_us)
            memory |= dict.fromkeys(one.memory_mb)
    sizes = [f"{size.vehicles:>8,}{size.messages_per_s:>7g}{size.measured_s:>6g}" for size, _ in known]
    runs = [costs for _, costs in known]
    title = f"{'vehicles':>8}{'per s':>7}{'s':>6}"
    yield from block(runs, list(FIGURES), lambda one: one.figures, 3, title=title, begins=sizes)
    yield "the link's latest change, ms; start and end, s"
    yield from block(runs, [LINK_LATE, *TIMES], lambda one: one.figures, 3)
    yield "CPU, us a message"
    yield from block(runs, ordered(parts), lambda one: one.cpu_us, 0)
    yield "resident memory at most, MB"
    yield from block(runs, ordered(memory), lambda one: one.memory_mb, 0)


def ordered(parts: Iterable[str]) -> list[str]:
    """Return the parts along a message's way; those that nobody knows come last."""
    return sorted(parts, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def block(
    runs: Sequence[Sequence[Cost]],
    heads: Sequence[str],
    of: Callable[[Cost], Mapping[str, float | None]],
    digits: int,
    *,
    title: str = "",
    begins: Sequence[str] = (),
) -> Iterator[str]:
    """Yield one line a row, numbered, with the medians of its runs."""
    yield f"{'#':>2} {title}" + "".join(f"{head[:6]:>7}" for head in heads)
    for index, costs in enumerate(runs):
        mark = "*" if any(one.behind for one in costs) else " "
        cells = []
        for head in heads:
            values = [value for one in costs if (value := of(one).get(head)) is not None]
            cells.append(shown(statistics.median(values), digits) if values else "-")
        begin = begins[index] if begins else ""
        yield f"{index + 1:>2}{mark}{begin}" + "".join(f"{cell:>7}" for cell in cells)


def shown(value: float, digits: int) -> str:
    return f"{value:,.0f}" if value >= 100 or not digits else f"{value:.{digits}g}"


if __name__ == "__main__":
    sys.exit(main())
