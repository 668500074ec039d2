"""The generator: CPU a message to make it, one by one and in blocks, and to build a vehicle, by turns in one process.

python -m bench.bench_generator [--vehicles 1 64 500] [--formats protobuf json] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from schemas.formats import FORMATS
from simulator.fleet import Fleet
from simulator.scenario import Scenario

START_AT_NS = 1_700_000_000_000_000_000
MESSAGES = 1_500
SEED = 2  # vehicle 1 is no stub
TARGET_US = 30.0


class Cost(NamedTuple):
    """What a fleet's process time went into."""

    message_us: float
    build_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, nargs="+", default=[1, 20, 64, 500])
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(
        f"process time of one thread, {chosen.rounds} rounds by turns: least (median); target {TARGET_US:g} us"
    )
    print(
        f"{'':<13}{'vehicles':>9}{'one by one, us':>20}{'in blocks, us':>20}{'built, ms':>15}{'for blocks':>15}"
    )
    for name in chosen.formats:
        for vehicles in chosen.vehicles:
            print(row(name, vehicles, chosen.rounds), flush=True)


def row(name: str, vehicles: int, rounds: int) -> str:
    """Measure both ways by turns; return the line."""
    alone, blocks = [], []
    for _ in range(rounds):
        with one_by_one(name):
            alone.append(cost(name, vehicles))
        if FORMATS[name].blocks is not None:
            blocks.append(cost(name, vehicles))
    cells = [f"{name:<13}{vehicles:>9,}"]
    cells += [f"{least([one.message_us for one in found]):>20}" for found in (alone, blocks)]
    cells += [f"{least([one.build_ms for one in found]):>15}" for found in (alone, blocks)]
    return "".join(cells)


def least(values: list[float]) -> str:
    return f"{min(values):.1f} ({statistics.median(values):.1f})" if values else "-"


@contextmanager
def one_by_one(name: str) -> Iterator[None]:
    """Make this format's payloads one by one."""
    one = FORMATS[name]
    kept, one.blocks = one.blocks, None
    try:
        yield
    finally:
        one.blocks = kept


def cost(name: str, vehicles: int) -> Cost:
    """Build a fleet, pass its first messages over, and make some more."""
    fleet = Fleet(Scenario(vehicles=vehicles, duration_s=31_536_000.0, format=name, seed=SEED))
    begun_s = time.process_time()
    for _ in fleet.build():
        pass
    built_s = time.process_time() - begun_s
    coming = fleet.emissions(START_AT_NS)
    messages = max(MESSAGES, 2 * vehicles)
    for _ in islice(coming, max(vehicles, 64)):
        pass
    begun_s = time.process_time()
    for _ in islice(coming, messages):
        pass
    return Cost((time.process_time() - begun_s) / messages * 1e6, built_s / vehicles * 1e3)


if __name__ == "__main__":
    main()
