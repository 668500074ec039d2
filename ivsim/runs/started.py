"""A run that has started: everything that is known once its vehicles wait for the first message, and never changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ivsim.options import RunOptions
from ivsim.runs.components import Components
from ivsim.runs.directory import RunDirectory
from ivsim.runs.kafka_log import KafkaLog
from ivsim.runs.link_player import LinkPlayer
from ivsim.runs.live_publisher import LivePublisher
from ivsim.runs.plan import RunPlan
from ivsim.runs.platform_usage import PlatformUsage


@dataclass(frozen=True)
class StartedRun:
    """One run from its start on: all its parts, and the threads that follow it.

    Attributes:
        start_at_ns: when second 0 begins (wall clock).
        opened_s: how long it took from the command to the first message due, in s.
        kafka_log: keeps Kafka's records as they come; None of a run without Kafka.
        platform: what the platform in Kafka's place takes; None without.
        spare_new: spares what was kept since the last call from Python's collector, under which no thread runs.
    """

    plan: RunPlan
    components: Components
    start_at_ns: int
    opened_s: float
    publisher: LivePublisher
    kafka_log: KafkaLog | None
    spare_new: Callable[[], None]
    platform: PlatformUsage | None = None

    @property
    def options(self) -> RunOptions:
        return self.plan.options

    @property
    def replay(self) -> LinkPlayer:
        return self.components.replay

    @property
    def directory(self) -> RunDirectory:
        return self.plan.directory

    def second(self) -> int:
        """Return the number of the second that goes on now; below 0 before the start."""
        return (time.time_ns() - self.start_at_ns) // 1_000_000_000


@dataclass(frozen=True)
class Ending:
    """How a run's messages ended.

    Attributes:
        stop_at_ns: when it stopped; None where every message had its chance, and nothing cuts the measurement window.
        at_s: the same on the monotonic clock.
        error: what stopped it early, if anything did.
    """

    stop_at_ns: int | None
    at_s: float
    error: str | None = None
