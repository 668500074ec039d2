"""A Kafka producer that makes its batches itself and chooses their setting anew each period, as a gateway does.

The batcher, the controller and its policies are `gateways.batching`'s; a producer has a partition of its own.
librdkafka is left the largest batch and a gateway's short linger: a batch that waits for one of the requests in flight
may be joined by later records, as there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateways.batch_control import BatchControl, controller_settings
from gateways.batching.asked import Batching
from gateways.batching.batcher import Batcher, BatchSetting
from gateways.batching.controller import Controller, Decision
from gateways.batching.decision_log import decision_row
from gateways.batching.period import Period
from gateways.batching.producer_statistics import ProducerWatch
from gateways.sinks.kinds import LINGER_MS
from ivsim.study.engines.pipe.platforms.base import Full, Place, Refused, Report
from ivsim.study.engines.pipe.platforms.kafka_clients import KafkaSender

# Messages that a gateway holds (`gateways.config`).
HELD_MESSAGES: Final = 1_000
ROOM_S: Final = 0.01

# Number, key, value and due time of a record, and when it was taken.
Taken = tuple[int, bytes | None, bytes, int, float]


class DecisionRows:
    """A log of decisions in memory, as `gateways.batching.decision_log.DecisionLog` is one in a file."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, decision: Decision, decided_at_ns: int) -> None:
        self.rows.append(decision_row(decision, decided_at_ns))

    def close(self) -> None:
        """Keep the rows: they are read afterwards."""


class ChoosingSender(KafkaSender):
    """Implements Sender and Choosing; of one thread, as every sender."""

    def __init__(self, place: Place, settings: Mapping[str, Any], index: int, report: Report) -> None:
        batching = Batching(
            messages=settings["batch_messages"],
            wait_ms=settings["linger_ms"],
            policy=settings["batching"],
            limit_ms=settings["limit_ms"],
            period_s=settings["batch_period_s"],
        )
        chosen = controller_settings(batching, HELD_MESSAGES, partitions=1)  # its own
        own = {"linger_ms": float(LINGER_MS), "batch_messages": chosen.bounds.messages_max}
        self._batcher: Batcher[Taken] = Batcher(batching.setting())
        self._period_s = batching.period_s
        self._period = Period(chosen.limit_ms, time.monotonic())
        self._watch = ProducerWatch(place["topic"])
        self._log = DecisionRows()
        # number -> when it was taken, and when its batch was given to the library
        self._waiting: dict[int, tuple[float, float]] = {}
        self._next_s: float | None = None
        self._controller = Controller(chosen)
        self._ports = {int(one.rpartition(":")[2]) for one in place["bootstrap"].split(",")}
        self._told_of = report
        super().__init__(place, {**settings, **own}, index, self._answered_with)

    def open(self) -> None:
        super().open()
        self._control = BatchControl(
            self._controller,
            delivery=self,
            period=self._period,
            watch=self._watch,
            kafka_ports=self._ports,
            stops=lambda: (0, False),  # an open loop: nothing holds the intake back
            log=self._log,
        )

    @property
    def decisions(self) -> list[dict[str, Any]]:
        return self._log.rows

    def change(self, setting: BatchSetting) -> None:
        """Make batches by another setting from now on."""
        self._give(self._batcher.change(setting, time.monotonic()))

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        now_s = time.monotonic()
        if self._next_s is None:
            self._period.begin(now_s)
            self._next_s = now_s + self._period_s
        self._period.taken += 1
        closed = self._batcher.add(self._own, (number, key, value, due_at_ns, now_s), now_s)
        if closed is not None:
            self._give([closed])

    def poll(self, timeout_s: float) -> None:
        """Hand over reports for a time, closing each batch and each period when it is due."""
        until_s = time.monotonic() + timeout_s
        while True:
            now_s = time.monotonic()
            self._give(self._batcher.due(now_s))
            if self._next_s is not None and now_s >= self._next_s:
                self._control.step()
                self._next_s += self._period_s
            next_s = min(until_s, self._batcher.deadline_s or until_s, self._next_s or until_s)
            super().poll(max(0.0, next_s - now_s))
            if time.monotonic() >= until_s:
                return

    def flush(self, timeout_s: float) -> int:
        self._give(self._batcher.close())
        return super().flush(timeout_s)

    def _give(self, batches: Iterable[list[Taken]]) -> None:
        for batch in batches:
            ended_s = time.monotonic()
            for number, key, value, due_at_ns, taken_s in batch:
                self._waiting[number] = (taken_s, ended_s)
                self._produce(number, key, value, due_at_ns)

    def _produce(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        """Give one record to the library, once it has room."""
        while True:
            try:
                super().send(number, key, value, due_at_ns)
            except Full:
                super().poll(ROOM_S)
            except Refused as problem:
                self._answered_with(number, str(problem))
                return
            else:
                return

    def _answered_with(self, number: int, problem: str | None) -> None:
        taken_s, ended_s = self._waiting.pop(number)
        if problem is None:
            self._period.confirmed(taken_s, ended_s, time.monotonic())
        self._told_of(number, problem)

    def _statistics(self, text: str) -> None:
        self._watch.take(text)
        super()._statistics(text)


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> ChoosingSender:
    """Return the producer's end."""
    return ChoosingSender(place, settings, index, report)
