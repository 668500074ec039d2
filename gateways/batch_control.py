"""Changes the setting of a gateway's batches each period: a thin shell around gateways.batching.controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from gateways.batching.asked import Batching
from gateways.batching.batcher import BatchSetting
from gateways.batching.controller import Controller, ControllerSettings, Decision
from gateways.batching.decision_log import DecisionLog
from gateways.batching.period import Period
from gateways.batching.producer_statistics import ProducerWatch
from gateways.batching.rules import Bounds
from gateways.batching.tcp_info import link_between, readings


def controller_settings(batching: Batching, receive_max: int, partitions: int) -> ControllerSettings:
    """Return what the controller of a gateway is told; ValueError names what none can obey.

    Args:
        batching: of the gateway's configuration.
        receive_max: messages that the gateway holds: twice what fills a batch of each partition, so that none waits for
            messages which the gateway may not take.
        partitions: of the topic.
    """
    if batching.limit_ms is None:
        raise ValueError(f"limit_ms: policy {batching.policy!r} needs one")
    bounds = Bounds(batching.setting(), max(batching.messages, receive_max // (2 * partitions)))
    return ControllerSettings(batching.policy, batching.limit_ms, batching.period_s, bounds, partitions)


class Changed(Protocol):
    """What makes batches by a setting that can be changed."""

    def change(self, setting: BatchSetting) -> None:
        """Make batches by another setting from now on."""


class Log(Protocol):
    """Where decisions are written down."""

    def append(self, decision: Decision, decided_at_ns: int) -> None:
        """Write one."""

    def close(self) -> None:
        """Write no more."""


class BatchControl:
    """Ends a period, asks the controller, obeys it and writes down why.

    Args:
        delivery: whose setting is changed.
        period, watch: what is told of messages and of the producer's requests meanwhile.
        kafka_ports: ports of Kafka's brokers, by which the producer's connections are known.
        stops: how often back-pressure has stopped the intake, and whether it does now.
        log: of the decisions; None writes none.
        clock_s: the delivery's.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        delivery: Changed,
        period: Period,
        watch: ProducerWatch,
        kafka_ports: Collection[int],
        stops: Callable[[], tuple[int, bool]],
        log: Log | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._delivery = delivery
        self._period = period
        self._watch = watch
        self._kafka_ports = kafka_ports
        self._stops = stops
        self._stopped = stops()
        self._log = log
        self._clock_s = clock_s
        self._tcp = readings(kafka_ports)

    async def run(self, period_s: float) -> None:
        """Decide at the end of each period until cancelled; the first begins now, not when the gateway was made."""
        self._period.begin(self._clock_s())
        while True:
            await asyncio.sleep(period_s)
            self.step()

    def step(self) -> Decision:
        """End the period now, and return what was decided and is in force."""
        tcp, now_s = readings(self._kafka_ports), self._clock_s()
        (before, was_stopped), self._stopped = self._stopped, self._stops()
        held_back = was_stopped or self._stopped[0] > before
        link = link_between(self._tcp, tcp)
        observation = self._period.end(now_s, self._watch.end(), link, held_back=held_back)
        self._tcp = tcp
        decision = self._controller.decide(observation, now_s)
        if decision.setting != decision.before:
            self._delivery.change(decision.setting)
        if self._log is not None:
            self._log.append(decision, time.time_ns())
        return decision

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def controlled(batching: Batching, receive_max: int, partitions: int, **parts: Any) -> BatchControl:
    """Return a gateway's control as its configuration says; `parts` are BatchControl's, but for the log."""
    controller = Controller(controller_settings(batching, receive_max, partitions))
    log = None if batching.decision_log is None else DecisionLog(Path(batching.decision_log))
    return BatchControl(controller, log=log, **parts)
