"""45 minutes of 500 vehicles with a fault each three minutes: what grows? `make soak`, `make soak ARGS="--minutes 5"`.

The fleet is mixed: a third of the vehicles speaks MQTT, a third AMQP and a third CoAP, at the same time. In each of three legs the
faults are of another protocol's gateway and broker (CoAP has no broker: then it is the next one's), on one Kafka, one Spark
session and one link that stay up. Memory, descriptors and threads of every process are sampled, the Spark job's checkpoint
and Kafka's log too, and of Java what full collections leave in its heap (`bench.java_heap`). Memory is a process's own: pages of
files are the kernel's to give up. A process that a fault has killed begins a new series, and each leg does: what a run takes at
its start is no growth, and what it leaves at its end is seen in heaps, which are judged over all legs. The first half of a
series is left out, and what then has less than five minutes gets no verdict. The capture's memory is level after twenty minutes:
one leg of 45 (`--faults-of amqp`) decides it, three of 15 do not. Exit code 1 when something grows or a ledger does not close. All
samples are in samples.csv of --output.

A vehicle sends each two seconds: 250 messages/s leave two cores room for what a fault has held up. At their limit of about 500
a soak shows an overload, and not what grows.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import psutil
import pyarrow.parquet as pq

from bench.java_heap import SPARK_CONF, heaps, java_options
from bench.slope import Slope, slope_of
from ivsim.chaos.campaign import promise_after
from ivsim.chaos.case import taken_at_ns
from ivsim.chaos.disturbances import DISTURBANCES
from ivsim.chaos.faults import GATEWAYS
from ivsim.chaos.injector import Injector
from ivsim.chaos.promises import IN_TWIN, Promise, judge, owed_by_broker
from ivsim.chaos.schedule import Planned, Schedule
from ivsim.mix import FleetPart
from ivsim.option_rules import run_options
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.servers import KAFKA
from schemas.json_files import read_json
from schemas.topics import vehicle_id

LEGS: Final = (("mqtt", "qos1"), ("amqp", "manual-confirms-persistent"), ("coap", "con"))
SHARES: Final = (34, 33, 33)
SAMPLE_S: Final = 5.0
FAULT_EACH_S: Final = 180.0
TAIL_S: Final = 20.0  # of a leg without a new fault
LOSS_TIMEOUT_S: Final = 60.0
NEEDED: Final = [
    "vehicle_id", "epoch", "sequence", "fate", "hop", "acknowledged_at_ns", "received_at_ns", "appended_at_ns", "copies",
    "due_at_ns", "emitted_at_ns",
]  # fmt: skip


class Quantity(NamedTuple):
    """What is sampled.

    Attributes:
        unit: for the table.
        scale: how many of what is sampled make one of the unit.
        least: growth in an hour that counts, in the unit.
    """

    unit: str
    scale: float
    least: float


QUANTITIES: Final = {
    "memory": Quantity("MB", 1e6, 10.0),
    "heap": Quantity("MB", 1e6, 10.0),
    "descriptors": Quantity("1", 1, 5.0),
    "threads": Quantity("1", 1, 5.0),
    # Not judged: Kafka keeps records for as long as their run lasts, and Spark the changes of ten batches, 50 minutes of real time.
    "checkpoint": Quantity("MB", 1e6, float("inf")),
    "log": Quantity("MB", 1e6, float("inf")),
}
Key = tuple[str, int, str, int]  # process, its id, quantity, leg from 1; 0 for all of them
Series = dict[Key, list[tuple[float, float]]]


class Sampler:
    """Samples every process of a run each five seconds.

    Attributes:
        leg: that goes on, from 1.
        names: of each process that was seen, and of those that it started.
    """

    def __init__(self) -> None:
        self.series: Series = defaultdict(list)
        self.leg = 0
        self.names: dict[int, str] = {}
        self._next_s = 0.0

    def __call__(self, run: StartedRun) -> None:
        at_s = time.monotonic()
        if at_s < self._next_s:
            return
        self._next_s = at_s + SAMPLE_S
        twin = run.components.twin
        owned: list[OwnedProcess] = [*run.components.children]
        owned += [server.process for server in run.components.servers.values()]
        owned += [] if twin is None else [twin.process]
        for process in owned:
            if process.running():
                self._processes(at_s, process.name, process.pid)
        self._processes(at_s, "ivsim", psutil.Process().pid, deep=False)
        if twin is not None:
            checkpoint = Path(read_json(run.directory.work / "twin.json")["checkpoint_dir"])
            self._add(at_s, "twin", twin.process.pid, "checkpoint", bytes_below(checkpoint))
        kafka = run.components.servers[KAFKA]
        assert isinstance(kafka, KafkaServer)
        self._add(at_s, KAFKA, 0, "log", bytes_below(kafka.log))

    def _processes(self, at_s: float, name: str, pid: int, *, deep: bool = True) -> None:
        memory = descriptors = threads = 0
        try:
            first = psutil.Process(pid)
            for process in (first, *(first.children(recursive=True) if deep else ())):
                self.names[process.pid] = name
                with process.oneshot():
                    found = process.memory_info()
                    memory += found.rss - found.shared
                    descriptors += process.num_fds()
                    threads += process.num_threads()
        except psutil.NoSuchProcess:  # one of them ended meanwhile: half a sum is none
            return
        for quantity, value in (("memory", memory), ("descriptors", descriptors), ("threads", threads)):
            self._add(at_s, name, pid, quantity, value)

    def _add(self, at_s: float, name: str, pid: int, quantity: str, value: float) -> None:
        self.series[name, pid, quantity, self.leg].append((at_s, value / QUANTITIES[quantity].scale))


def bytes_below(directory: Path) -> int:
    """Return what the files below a directory occupy; what goes meanwhile counts nothing."""
    total = 0
    for parent, _, names in os.walk(
        directory
    ):  # which passes over a directory that has gone, as Path.rglob does not
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).lstat().st_blocks * 512
    return total


def legs(minutes: float, seed: int, faults_of: str | None = None) -> list[tuple[Schedule, float]]:
    """Return the schedule of each leg, with faults that its first protocol can have, and how long the leg lasts in s.

    `faults_of` is the protocol of the only leg; None: each protocol has one.
    """
    stream = Random(f"soak/{seed}")
    chosen = [leg for leg in LEGS if faults_of in {None, leg[0]}]
    length_s = minutes * 60 / len(chosen)
    at_s = FAULT_EACH_S / 2
    found = []
    for index, (protocol, mode) in enumerate(chosen):
        rows = [
            row
            for row in DISTURBANCES.values()
            if row.fault.applies_to(protocol) and row.fault.parts != GATEWAYS[1:]  # each protocol has one
        ]
        planned = []
        while at_s < (index + 1) * length_s:
            row = stream.choice(rows)
            begin_s = min(at_s - index * length_s, length_s - TAIL_S)
            planned.append(
                Planned(row.fault.name, round(begin_s, 1), round(stream.uniform(*row.down_range_s), 1))
            )
            at_s += FAULT_EACH_S
        found.append((Schedule(f"{protocol}-{mode}", protocol, mode, seed, tuple(planned)), length_s))
    return found


def mix_of(schedule: Schedule) -> str:
    """Return the mix of a leg: the protocol whose parts the faults are of comes first."""
    first = LEGS.index((schedule.protocol, schedule.mode))
    turned = [*LEGS[first:], *LEGS[:first]]
    return ",".join(
        f"{protocol} {mode}={share}" for (protocol, mode), share in zip(turned, SHARES, strict=True)
    )


def run_leg(
    testbed: Testbed, leg: tuple[Schedule, float], fleet: tuple[int, float], base: Path, sampler: Sampler
) -> list[str]:
    """Run a leg, print its line, and return what is broken; SystemExit with its code when a signal ended it.

    `fleet` is its vehicles and the s between two messages of each.
    """
    schedule, length_s = leg
    vehicles, interval_s = fleet
    options = run_options(
        mix=mix_of(schedule), vehicles=vehicles, interval_s=interval_s, duration_s=length_s,
        loss_timeout_s=LOSS_TIMEOUT_S, seed=schedule.seed, spark_conf=SPARK_CONF,
    )  # fmt: skip
    injector = Injector(schedule)

    def disturb(run: StartedRun) -> None:
        sampler(run)
        injector(run)

    directory = base / schedule.name
    try:
        outcome = testbed.run(options, directory, disturb=disturb)
    finally:
        injector.release()
    if outcome.signal is not None:
        raise SystemExit(outcome.exit_code)
    ledger = directory / "ledger.parquet"
    rows = pq.read_table(ledger, columns=NEEDED).to_pylist() if ledger.is_file() else []
    rows = owed_by_broker(rows, injector.injected_at_ns, taken_at_ns(directory, rows))
    print(f"faults of {schedule.protocol}: {', '.join(injector.injected) or 'none'}")
    broken, in_twin = [], 0
    for part in options.parts:
        names = {vehicle_id(number) for number in part.vehicles}
        own = [row for row in rows if row["vehicle_id"] in names]
        distinct = sum(row["fate"] in IN_TWIN for row in own)
        promise = promise_of_part(schedule, part).after(injector.broker_ends.found)
        judgement = judge(own, promise, distinct, injector.back_at_ns)
        counts = ", ".join(f"{n:,} {fate}" for fate, n in judgement.counts.items() if n)
        print(f"    {part.words} ({promise.word}): {counts}")
        print(f"        acknowledged and lost: {judgement.acknowledged_and_lost:,}", flush=True)
        broken += [f"{part.words}: {line}" for line in judgement.broken]
        in_twin += distinct
    if in_twin != outcome.twin_distinct:
        broken.append(f"the twins count {outcome.twin_distinct} distinct messages, the ledger {in_twin}")
    if outcome.error is not None:
        # Its other lines are the end of the part's log.
        broken.append(outcome.error.replace("\n", "\n            "))
    if not injector.done():
        broken.append("the faults were not injected, and their parts back, in time")
    for line in broken:
        print(f"    BROKEN: {line}", flush=True)
    return broken


def promise_of_part(schedule: Schedule, part: FleetPart) -> Promise:
    """Return what a protocol keeps in a leg: faults of another's broker and gateway are none of its own."""
    own = (schedule.protocol, schedule.mode) == (part.protocol.name, part.mode.name)
    faults = [planned for planned in schedule.faults if own or not _of_one_protocol(planned.fault)]
    return promise_after(
        replace(schedule, protocol=part.protocol.name, mode=part.mode.name, faults=tuple(faults)), gateways=1
    )


def _of_one_protocol(fault: str) -> bool:
    return bool({"broker", *GATEWAYS} & set(DISTURBANCES[fault].fault.parts))


def table(series: Series) -> tuple[list[str], list[str]]:
    """Return a line for each series that is long enough, no wider than 80 columns, and the names of those that grow."""
    lines = [
        f"{'process':<12}{'quantity':<12}{'median':>9}{'per hour':>10}  {'95 % interval':<20}{'verdict':<9}n"
    ]
    growing, short = [], 0
    for (name, pid, quantity, leg), samples in sorted(series.items()):
        found = slope_of(*zip(*samples, strict=True))
        if found is None:
            short += 1
            continue
        least = QUANTITIES[quantity].least
        verdict = found.verdict(least) if math.isfinite(least) else "-"
        lines.append(_line(name, quantity, found, verdict))
        if verdict == "grows":
            growing.append(f"{name} ({pid}): {quantity}" + (f" in leg {leg}" if leg else ""))
    lines.append(f"{short} series are too short to be judged (processes that a fault ended soon)")
    return lines, growing


def write_samples(series: Series, path: Path) -> None:
    """Write a row a sample; times are monotonic ones in s, and for a heap the age of its process."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("process", "pid", "quantity", "leg", "at_s", "value"))
        for key, samples in sorted(series.items()):
            writer.writerows((*key, round(at_s, 3), value) for at_s, value in samples)


def _line(name: str, quantity: str, found: Slope, verdict: str) -> str:
    unit = QUANTITIES[quantity].unit
    of = quantity if unit == "1" else f"{quantity} {unit}"
    interval = f"{_signed(found.low)} to {_signed(found.high)}"
    return (
        f"{name[:11]:<12}{of[:14]:<12}"
        f"{found.median:>9,.1f}{_signed(found.per_hour):>10}  {interval:<20}{verdict:<9}{found.samples}"
    )


def _signed(value: float) -> str:
    return f"{value:+.1f}" if abs(value) < 1_000 else f"{value:+.0f}"


def main() -> int:
    """Soak, and print the ledgers and the slopes."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=45.0, help="of messages, over all legs (3 or more)")
    parser.add_argument("--vehicles", type=int, default=500, help="3 to 5000")
    parser.add_argument("--interval", type=float, default=2.0, help="s between two messages of a vehicle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--faults-of",
        choices=[protocol for protocol, _ in LEGS],
        help="one leg alone, as long as all: its series decide what a quarter of an hour leaves open",
    )
    parser.add_argument("--output", type=Path, help="directory of the results; none is kept without it")
    arguments = parser.parse_args()
    if not 3 <= arguments.minutes <= 24 * 60:
        parser.error(f"--minutes {arguments.minutes:g}: allowed are 3 to 1440")
    if not 3 <= arguments.vehicles <= 5_000:
        parser.error(f"--vehicles {arguments.vehicles}: allowed are 3 to 5000")
    if not 0.1 <= arguments.interval <= 60:
        parser.error(f"--interval {arguments.interval:g}: allowed are 0.1 to 60")
    if arguments.output is not None and arguments.output.is_dir() and any(arguments.output.iterdir()):
        parser.error(f"--output {arguments.output}: not empty; name a new directory")
    sampler = Sampler()
    broken: list[str] = []
    fleet = arguments.vehicles, arguments.interval
    with tempfile.TemporaryDirectory(prefix="ivsim-soak-") as name:
        logs = Path(name, "java")
        logs.mkdir()
        os.environ["JAVA_TOOL_OPTIONS"] = java_options(logs)
        base = arguments.output or Path(name)
        base.mkdir(parents=True, exist_ok=True)
        with Testbed() as testbed:
            for leg in legs(arguments.minutes, arguments.seed, arguments.faults_of):
                sampler.leg += 1
                broken += run_leg(testbed, leg, fleet, base, sampler)
        for pid, rows in heaps(logs).items():
            if pid in sampler.names:  # others were tools that ended soon
                sampler.series[sampler.names[pid], pid, "heap", 0] = rows
    if arguments.output is not None:
        write_samples(sampler.series, arguments.output / "samples.csv")
    lines, growing = table(sampler.series)
    print("\n" + "\n".join(lines))
    print(f"\ngrows: {'; '.join(growing) or 'nothing'}; ledgers: {'BROKEN' if broken else 'closed'}")
    return 1 if growing or broken else 0


if __name__ == "__main__":
    sys.exit(main())
