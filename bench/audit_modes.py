"""A small run of every protocol's every mode, and an audit of each: `python -m bench.audit_modes --output DIR`.

All runs share one testbed (Kafka, Spark and the link stay up); sixteen take some ten minutes, so `make bench` leaves
it out. A mode whose directory is there already is audited and not run again. Exit code 1 when a run or an audit fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from gateways.protocols import PROTOCOLS
from ivsim.audit import BadResult, audit
from ivsim.commands.audit import words
from ivsim.option_rules import run_options
from ivsim.runs.testbed import Testbed
from schemas.errors import Refusal

MODES = tuple((protocol.name, mode) for protocol in PROTOCOLS.values() for mode in protocol.modes)
HEADER = "| protocol | mode | due | delivered | figures | differ | run, s | audit, s |\n|---|---|--:|--:|--:|--:|--:|--:|"


def main() -> int:
    """Run and audit the modes; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="directory of the results")
    parser.add_argument("--protocol", help="the modes of this protocol alone")
    parser.add_argument("--mode", help="this mode alone")
    parser.add_argument("--vehicles", type=int, default=3)
    parser.add_argument("--duration", type=float, default=5.0, help="seconds")
    parser.add_argument("--loss", type=float, default=0.03, help="ratio")
    arguments = parser.parse_args()
    wanted = [
        (protocol, mode)
        for protocol, mode in MODES
        if arguments.protocol in {None, protocol} and arguments.mode in {None, mode}
    ]
    arguments.output.mkdir(parents=True, exist_ok=True)
    print(HEADER, flush=True)
    with Testbed() as testbed:
        failed = [
            f"{protocol} {mode}" for protocol, mode in wanted if not one(testbed, protocol, mode, arguments)
        ]
    print(
        f"\n{len(wanted) - len(failed)} of {len(wanted)} modes agree"
        + (f"; not {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


def one(testbed: Testbed, protocol: str, mode: str, arguments: argparse.Namespace) -> bool:
    """Run and audit a mode, print its row and what differs; return whether all agrees."""
    directory = arguments.output / f"{protocol}-{mode}"
    began_s = time.monotonic()
    try:
        if not (directory / "metrics.json").is_file():
            options = run_options(
                protocol=protocol, mode=mode, vehicles=arguments.vehicles, duration_s=arguments.duration,
                loss_ratio=arguments.loss, loss_timeout_s=10.0, warmup_s=1.0, pcap=True,
            )  # fmt: skip
            outcome = testbed.run(options, directory)
            if outcome.error is not None:
                print(f"| {protocol} | {mode} | {outcome.error.splitlines()[0]} |", flush=True)
                return False
        ran_s = time.monotonic()
        made = audit(directory)
    except (Refusal, BadResult) as error:
        print(f"| {protocol} | {mode} | {error} |", flush=True)
        return False
    metrics = json.loads((directory / "metrics.json").read_text())
    differ = sum(len(sheet.differences) for sheet in made.sheets)
    cells = (
        protocol, mode, metrics["due"], metrics["delivered"], f"{made.compared:,}", differ, f"{ran_s - began_s:.0f}",
        f"{time.monotonic() - ran_s:.1f}",
    )  # fmt: skip
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    if differ:
        print(words(made, 10), file=sys.stderr, flush=True)
    return differ == 0


if __name__ == "__main__":
    raise SystemExit(main())
