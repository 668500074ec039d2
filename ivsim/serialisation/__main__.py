"""`python -m ivsim.serialisation [--quick] [--output DIR]`: run the serialisation study."""

from __future__ import annotations

import argparse
from pathlib import Path

from ivsim.serialisation.study import run

DEFAULT = Path("studies") / "serialisation"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ivsim.serialisation", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer messages and repetitions: a look, no result"
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT, help="folder for results.json, figures, report.md"
    )
    chosen = parser.parse_args()
    print(run(chosen.output, chosen.quick))


if __name__ == "__main__":
    main()
