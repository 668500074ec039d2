"""Statistics: how often 95 % intervals hold the truth, in made-up studies of the bundled studies' designs.

python -m bench.bench_statistics [--trials N]     N made-up studies for each figure (4,000)
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bench.worlds import Design, coverage_of_means, coverage_of_shares, designs, false_differences


def main(trials: int) -> None:
    """Print one line a design and world: now, and as it was with messages for the unit."""
    rng = np.random.Generator(np.random.PCG64(1))
    known = designs()
    further = [Design("further", r, v, m) for r in (1, 5, 10) for v, m in ((30, 15), (40, 25))]
    print(
        "coverage of 95 % intervals, in %: the unit in ivsim.study.clusters, and messages for the unit as before"
    )
    for design in [*known, *further]:
        few = max(200, trials // max(1, design.messages // 40))
        for skew in (0.0, 0.6, 1.0):
            for apart in (0.0, 1.0, 3.0, 9.0):
                if design.repetitions > 1 or not apart:
                    found = coverage_of_means(design, few, rng, skew=skew, apart=apart)
                    say(design, f"mean, skew {skew}, repetitions apart {apart:g}", found)
        if design.messages < 200:
            for ratio in (0.01, 0.05, 0.1, 0.25):
                for burst in (1 / (1 - ratio), 4.0):
                    found = coverage_of_shares(design, few, rng, ratio=ratio, burst=burst)
                    say(design, f"loss ratio {ratio}, bursts of {burst:.1f}", found)
    print("two studies alike but for the seed, 24 rows: tables with any difference, rows with one, in %")
    for design in known:
        for apart in (0.0, 1.0, 3.0):
            tables = max(100, trials // 20 // max(1, design.messages // 40))
            found = false_differences(design, tables, 24, rng, apart=apart)
            say(design, f"repetitions apart {apart:g}", found)


def say(design: Design, what: str, found: tuple[float, float]) -> None:
    """Print one line."""
    size = f"{design.study:18} {design.repetitions:2} x {design.vehicles:2} x {design.messages:4}"
    print(f"{size}  {what:38} {100 * found[0]:5.1f} {100 * found[1]:5.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=4_000)
    began_s = time.process_time()
    main(parser.parse_args().trials)
    print(f"{time.process_time() - began_s:.0f} s of CPU")
