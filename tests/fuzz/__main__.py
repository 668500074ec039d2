"""`python -m tests.fuzz SURFACE... --count 1000000 --seed 1`: malformed input, its rate, and memory that stays flat.

Exit code 0 when the surface stood it, 1 when it did not (the input is printed), 2 for a word that is none.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.fuzz.runner import BrokenSurfaceError, Result, run
from tests.fuzz.surfaces import SURFACES


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Malformed input, one surface at a time."
    )
    parser.add_argument("surface", nargs="+", choices=[*SURFACES, "all"])
    parser.add_argument("--count", type=int, default=100_000, help="malformed inputs a surface")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    if asked.count < 1:
        parser.error("--count: at least 1")
    failed = 0
    for name in SURFACES if "all" in asked.surface else asked.surface:
        try:
            result = asyncio.run(_run(name, asked.count, asked.seed))
        except BrokenSurfaceError as error:
            print(f"{name}, seed {asked.seed}: {error}", flush=True)
            failed = 1
            continue
        failed |= shown(name, asked.seed, result)
    return failed


async def _run(name: str, count: int, seed: int) -> Result:
    return await run(SURFACES[name](seed), count)


def shown(name: str, seed: int, result: Result) -> int:
    """Print a result; return 1 when the memory was not flat."""
    first, last = result.resident_bytes[0] / 1e6, result.resident_bytes[-1] / 1e6
    flat = result.grown_bytes <= SURFACES[name].growth_bytes
    print(
        f"{name}, seed {seed}: {result.inputs} malformed, {result.good} good between them, all taken;"
        f" {result.inputs / result.seconds:.0f}/s; resident {first:.0f} to {last:.0f} MB,"
        f" second half {result.grown_bytes / 1e6:+.1f} MB ({'flat' if flat else 'NOT FLAT'})\n"
        f"  {result.outcomes}",
        flush=True,
    )
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
