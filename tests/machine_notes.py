"""What the machine does while tests run: a process that sleeps 5 ms at a time and notes what it finds; reading its notes.

The watcher is this file as a script: its own process (a thread would measure the test's GIL), standard library alone.
It ends with its owner, and starts nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLEEP_S = 0.005
# A processor that has other work lets a sleeper wait for some slices of 3 ms each: that is no stall.
GAP_S = 0.02
SAMPLE_S = 1.0
LIMIT_BYTES = 16_000_000
PATIENCE_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Meanwhile:
    """What the machine did between two moments.

    Attributes:
        watched: whether the notes cover all of it; without that the rest proves nothing.
        gaps_ms: how long the sleeper was kept from running, each time from GAP_S on, as far as it fell between the moments.
        others_ratio: share of all processors' time that the hypervisor, or processes that are not seen from here, took.
    """

    seconds: float
    watched: bool
    gaps_ms: tuple[float, ...] = ()
    others_ratio: float = 0.0
    stolen_ratio: float = 0.0
    busy_ratios: tuple[float, ...] = ()
    pressure_percent: float | None = None
    load: float = 0.0

    @property
    def largest_ms(self) -> float:
        return max(self.gaps_ms, default=0.0)

    @property
    def stalled_ms(self) -> float:
        return sum(self.gaps_ms)

    def text(self) -> str:
        """Return it in words."""
        if not self.watched:
            return (
                f"{self.seconds:.1f} s from the beginning of set-up; nobody watched the machine for all of it"
            )
        busy = ", ".join(f"{ratio:.0%}" for ratio in self.busy_ratios)
        pressure = "not known" if self.pressure_percent is None else f"up to {self.pressure_percent:.0f} %"
        return (
            f"{self.seconds:.1f} s from the beginning of set-up; stood still {len(self.gaps_ms)} times for"
            f" {GAP_S * 1e3:.0f} ms or more: {self.largest_ms:.0f} ms at most, {self.stalled_ms:.0f} ms in all\n"
            f"others took {self.others_ratio:.0%} of the processors (the hypervisor {self.stolen_ratio:.0%});"
            f" busy: {busy}; pressure (some avg10) {pressure}; load average up to {self.load:.1f}"
        )


def watch(path: Path, owner: int) -> None:
    """Note gaps and samples until the owner has ended or the notes are full; remove what a dead owner cannot."""
    with path.open("ab", buffering=0) as notes:
        due_s = last_s = time.monotonic()
        while last_s < due_s or (os.getppid() == owner and notes.tell() < LIMIT_BYTES):
            computed_s = 0.0
            if last_s >= due_s:
                used_s = time.process_time()
                notes.write(json.dumps(sample()).encode() + b"\n")
                # A sample of many processes takes its time: that kept the sleeper from nothing.
                computed_s = time.process_time() - used_s
                due_s = last_s + SAMPLE_S
            time.sleep(SLEEP_S)
            now_s = time.monotonic()
            if now_s - last_s - computed_s >= GAP_S:
                notes.write(json.dumps({"gap": [last_s, now_s]}).encode() + b"\n")
            last_s = now_s
    if os.getppid() != owner:
        for left in path.parent.iterdir():
            left.unlink()
        path.parent.rmdir()


def sample() -> dict[str, Any]:
    """Return what the kernel says now; times are sums since it started."""
    lines = [line.split() for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()]
    each = [[int(one) / TICKS_PER_S for one in line[1:9]] for line in lines if line[0].startswith("cpu")]
    # user, nice, system, idle, iowait, irq, softirq, steal; the first line is the sum of all processors.
    busy = [sum(times) - times[3] - times[4] - times[7] for times in each]
    pressure = None
    with contextlib.suppress(OSError):
        pressure = float(Path("/proc/pressure/cpu").read_text(encoding="utf-8").split("avg10=")[1].split()[0])
    return {
        "at": time.monotonic(),
        "stolen_s": each[0][7],
        "others_s": busy[0] - seen_s(),
        "busy_s": busy[1:],
        "pressure": pressure,
        "load": os.getloadavg()[0],
    }


def seen_s() -> float:
    """Return the processor time of all processes that are seen from here, with that of the children they have waited for.

    In the chroot of `make bare`, a PID namespace, these are its own alone. The rest of the machine's time is others'.
    """
    ticks = 0
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (path / "stat").read_bytes().rpartition(b")")[2].split()
                ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_S


def meanwhile(path: Path | None, begin_s: float, end_s: float, patience_s: float = PATIENCE_S) -> Meanwhile:
    """Return what the notes say of the time between two moments; waits for the sample that follows the second one."""
    give_up_s = time.monotonic() + patience_s
    while True:
        notes = [json.loads(line) for line in _whole_lines(path)]
        samples = [note for note in notes if "at" in note]
        before = [one for one in samples if one["at"] <= begin_s]
        behind = [one for one in samples if one["at"] >= end_s]
        if before and behind:
            break
        if path is None or not before or time.monotonic() >= give_up_s:
            return Meanwhile(end_s - begin_s, watched=False)
        time.sleep(0.05)
    first, last = before[-1], behind[0]
    took_s = last["at"] - first["at"]
    all_s = took_s * len(first["busy_s"])
    stolen = (last["stolen_s"] - first["stolen_s"]) / all_s
    within = [one for one in samples if first["at"] <= one["at"] <= last["at"]]
    clipped = [
        min(end, end_s) - max(begin, begin_s) for begin, end in (n["gap"] for n in notes if "gap" in n)
    ]
    return Meanwhile(
        end_s - begin_s,
        watched=True,
        gaps_ms=tuple(gap_s * 1e3 for gap_s in clipped if gap_s >= GAP_S),
        others_ratio=max(0.0, (last["others_s"] - first["others_s"]) / all_s) + stolen,
        stolen_ratio=stolen,
        busy_ratios=tuple((b - a) / took_s for a, b in zip(first["busy_s"], last["busy_s"], strict=True)),
        pressure_percent=max(
            (one["pressure"] for one in within if one["pressure"] is not None), default=None
        ),
        load=max(one["load"] for one in within),
    )


def _whole_lines(path: Path | None) -> list[bytes]:
    """Return the lines that are written to their ends."""
    try:
        return path.read_bytes().split(b"\n")[:-1] if path is not None else []
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]))
