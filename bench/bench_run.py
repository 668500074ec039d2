"""How long a run takes to start and to account, and how punctual its sender is: one run to warm up, two measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARGUMENTS = ("--vehicles", "20", "--interval", "1", "--duration", "20", "--quiet")
RUNS = 3


def main() -> None:
    print("20 vehicles x 1/s for 20 s, MQTT QoS 1, default trace; targets: 20 s, 20 s, 5 ms")
    print(
        f"{'run':>8} {'command to first message s':>27} {'drain to report s':>18} {'emission lag p99 ms':>20} {'whole s':>8}"
    )
    with tempfile.TemporaryDirectory() as base:
        for index in range(RUNS):
            output = Path(base) / str(index)
            began_s = time.monotonic()
            command = [sys.executable, "-m", "ivsim.cli", "run", *ARGUMENTS, "--output", str(output)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            whole_s = time.monotonic() - began_s
            timings = json.loads((output / "manifest.json").read_text())["timings_s"]
            metrics = json.loads((output / "metrics.json").read_text())
            row = (
                timings["command_to_first_message_s"],
                timings["drain_to_report_s"],
                metrics["emission_lag_p99_ms"],
            )
            name = "warm-up" if index == 0 else str(index)
            print(f"{name:>8} {row[0]:>27.1f} {row[1]:>18.1f} {row[2]:>20.3f} {whole_s:>8.1f}")


if __name__ == "__main__":
    main()
