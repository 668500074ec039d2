"""Counters of every part while a run goes, once a second: CPU time, and messages at each point of their way.

A difference of two counts is what waits between the points. Nothing here decides anything.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition

from gateways.receive_log import RECORD
from ivsim.runs.processes import receive_logs
from ivsim.runs.started import StartedRun
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.servers import KAFKA

EVERY_S: Final = 1.0
# A process that starts another one later than this many samples is still found.
LOOK_EVERY: Final = 5
ANSWER_S: Final = 0.5
RUNNER: Final = "runner"
ROUTER: Final = "router"


class Sample(NamedTuple):
    """The counters at one instant; None is not known. Counts are since the start of the run.

    Attributes:
        at_s: since second 0 of the run.
        cpu_s: of each part with the processes that it has started, since each began.
        memory_bytes: resident, of the same processes; pages that several of them share count for each.
        busy_s: of all cores, for whatever program.
        emitted, acknowledged: messages, by the emission logs, which are read once a second.
        received: messages that the gateways have taken.
        appended: records of vehicle.status, those of the twin's warm-up included.
        in_twin: distinct messages that the twins contain, as far as it is known by now.
        in_twin_at_s: of when that is, by Kafka's stamps: up to a second ago.
    """

    at_s: float
    cpu_s: dict[str, float]
    memory_bytes: dict[str, int]
    busy_s: float
    emitted: int
    acknowledged: int
    received: int
    appended: int | None
    in_twin: int | None
    in_twin_at_s: float | None = None


class PartProcesses:
    """Every process of a run by its part; who has started another one is asked at each `LOOK_EVERY`th look."""

    def __init__(self) -> None:
        self._found: dict[str, list[psutil.Process]] = {}
        self._looks = 0

    def cpu_s(self, run: StartedRun) -> dict[str, float]:
        """Look, and return the CPU time of each part since it began."""
        if self._looks % LOOK_EVERY == 0:
            self._found = _processes(run)
        self._looks += 1
        return {name: _cpu_s(processes) for name, processes in self._found.items()}

    def found(self) -> dict[str, list[psutil.Process]]:
        """Return the processes of the last look, by their part."""
        return self._found

    def memory_bytes(self) -> dict[str, int]:
        """Return the resident memory of each part, of the processes of the last look."""
        return {name: _resident(processes) for name, processes in self._found.items()}


class Sampler:
    """Is called several times a second while a run goes, and takes a sample once a second; a context manager."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._next_s = 0.0
        self._stack = ExitStack()
        self._consumer: Consumer | None = None
        self._partitions: list[TopicPartition] = []
        self._processes = PartProcesses()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(self, run: StartedRun) -> None:
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVERY_S
        totals = run.publisher.totals()
        reader = run.components.live_reader
        # Taken before the count: what comes between the two makes less wait, not more.
        counted_to_ms = None if reader is None else reader.counted_to_ms()
        cpu = psutil.cpu_times()
        self.samples.append(
            Sample(
                at_s=(time.time_ns() - run.start_at_ns) / 1e9,
                cpu_s=self._processes.cpu_s(run),
                memory_bytes=self._processes.memory_bytes(),
                busy_s=sum(cpu) - cpu.idle - getattr(cpu, "iowait", 0.0) - _counted_twice(cpu),
                emitted=totals.get("emitted", 0),
                acknowledged=totals.get("acknowledged", 0),
                received=sum(_size(path) // RECORD.size for path in receive_logs(run.directory.path)),
                appended=self._appended(run),
                in_twin=None if reader is None else reader.contained(),
                in_twin_at_s=None
                if counted_to_ms is None
                else (counted_to_ms * 1_000_000 - run.start_at_ns) / 1e9,
            )
        )

    def _appended(self, run: StartedRun) -> int | None:
        kafka = run.components.endpoints.kafka
        if not kafka.bootstrap:
            return None
        try:
            if self._consumer is None:
                settings = {"group.id": "ivsim-count", "log_level": 2}
                self._consumer = Consumer(kafka.client_settings() | settings)
                self._stack.callback(self._consumer.close)
            if not self._partitions:
                topic = kafka.topics.status
                known = self._consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
                self._partitions = [TopicPartition(topic, number) for number in known]
            ends = [
                self._consumer.get_watermark_offsets(one, timeout=ANSWER_S)[1] for one in self._partitions
            ]
            return int(sum(ends))
        except KafkaException:  # a broker that is busy has not said: this sample does not know
            return None


def _processes(run: StartedRun) -> dict[str, list[psutil.Process]]:
    """Return every process of the run by the part that it belongs to."""
    components = run.components
    known = {child.pid: child.name for child in components.children}
    known |= {
        server.process.pid: KAFKA if isinstance(server, KafkaServer) else name
        for name, server in components.servers.items()
    }
    if components.twin is not None:
        known[components.twin.process.pid] = "spark"
    own = psutil.Process()
    found = {RUNNER: [own]}
    part_of: dict[int, str] = {}
    # One look at all processes of the machine, in which each comes behind its parent.
    for one in own.children(recursive=True):
        with suppress(psutil.Error):  # one that has ended meanwhile
            parent = one.ppid()
            # The one that nobody names is the link's: the router in user-mode Linux.
            part = known.get(one.pid, ROUTER) if parent == own.pid else part_of.get(parent, ROUTER)
            part_of[one.pid] = part
            found.setdefault(part, []).append(one)
    return found


def _cpu_s(processes: list[psutil.Process]) -> float:
    total_s = 0.0
    for process in processes:
        with suppress(psutil.Error):  # one that has ended meanwhile
            times = process.cpu_times()
            total_s += times.user + times.system
    return total_s


def _resident(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def _counted_twice(cpu: Any) -> float:
    """Return the time of guests, which the kernel counts as user time too."""
    return float(getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - asked once a second
    except OSError:
        return 0
