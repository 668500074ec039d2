"""Every protocol's modes over the replayed link at 0, 5 and 25 % loss: `python -m bench.mode_table --output DIR`.

Each cell is one whole run of the testbed (about a minute), so `make bench` leaves it out. A cell whose
directory holds its metrics already is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from gateways.protocols import PROTOCOLS, every_mode
from ivsim.option_rules import run_options
from ivsim.runs.runner import execute
from ledger.metrics import FATES

MODES = tuple((protocol.name, mode.name) for protocol, mode in every_mode().values())
LOSSES = (0.0, 0.25, 0.05)  # the extremes first
HOPS = ("vehicle", "link", "broker", "gateway", "kafka")
HEADER = (
    "| mode | loss | delivered | late | lost | unsent | lost at | duplicates | one-way p50 / p99, ms"
    " | end to end p50 / p99, ms | overhead, B/message |\n|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|"
)


class Cell(NamedTuple):
    protocol: str
    mode: str
    loss_ratio: float

    @property
    def name(self) -> str:
        return f"{self.protocol}-{self.mode}-{self.loss_ratio:g}"


def run(cell: Cell, directory: Path, arguments: argparse.Namespace) -> str | None:
    """Run a cell; return what went wrong, if anything did."""
    options = run_options(
        protocol=cell.protocol,
        mode=cell.mode,
        loss_ratio=cell.loss_ratio,
        vehicles=arguments.vehicles,
        duration_s=arguments.duration,
        loss_timeout_s=arguments.loss_timeout,
        seed=arguments.seed,
    )
    return execute(options, directory, quiet=True).error


def open_sum(directory: Path) -> str | None:
    """Return why the cell's ledger is not closed, None when it is."""
    fates = [row["fate"] for row in pq.read_table(directory / "ledger.parquet", columns=["fate"]).to_pylist()]
    due = json.loads((directory / "metrics.json").read_text())["run_due"]
    placed = sum(fates.count(fate) for fate in FATES)
    return None if placed == due == len(fates) else f"{due} due, {placed} placed, {len(fates)} rows"


def line(cell: Cell, metrics: dict[str, Any]) -> str:
    """Return one line of the table."""
    hops = ", ".join(f"{hop} {metrics[f'lost_at_{hop}']}" for hop in HOPS if metrics[f"lost_at_{hop}"])
    delivered = f"{metrics['delivered']} of {metrics['due']} ({100 * (metrics['delivery_ratio'] or 0):.1f} %)"
    values = (
        f"{cell.protocol} {cell.mode}", f"{100 * cell.loss_ratio:g} %", delivered, metrics["late"], metrics["lost"],
        metrics["unsent"], hops, metrics["duplicates"], _pair(metrics, "one_way_delay"),
        _pair(metrics, "end_to_end_latency"), _number(metrics["overhead_bytes_per_message"]),
    )  # fmt: skip
    return f"| {' | '.join(map(str, values))} |"


def _pair(metrics: dict[str, Any], name: str) -> str:
    return f"{_number(metrics[f'{name}_p50_ms'])} / {_number(metrics[f'{name}_p99_ms'])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def cells(only: str | None) -> Iterator[Cell]:
    """Return the cells in the order of running."""
    for loss_ratio in LOSSES:
        for protocol, mode in MODES:
            assert mode in PROTOCOLS[protocol].modes
            if only is None or only in f"{protocol}-{mode}":
                yield Cell(protocol, mode, loss_ratio)


def order(cell: Cell) -> tuple[int, float]:
    """Return where a cell's line stands."""
    return MODES.index((cell.protocol, cell.mode)), cell.loss_ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", help="part of PROTOCOL-MODE")
    parser.add_argument("--vehicles", type=int, default=30)
    parser.add_argument("--duration", type=float, default=12.0)
    parser.add_argument("--loss-timeout", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = []
    for cell in cells(arguments.only):
        directory = arguments.output / cell.name
        if not (directory / "metrics.json").is_file():
            print(cell.name, file=sys.stderr, flush=True)
            wrong += [f"{cell.name}: {error}" for error in [run(cell, directory, arguments)] if error]
    print(HEADER)
    for cell in sorted(cells(arguments.only), key=order):
        directory = arguments.output / cell.name
        if not (directory / "metrics.json").is_file():
            continue
        print(line(cell, json.loads((directory / "metrics.json").read_text())))
        wrong += [f"{cell.name}: {problem}" for problem in [open_sum(directory)] if problem]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
