"""Batching: CPU time of the batcher a message, of the whole delivery with and without it, and of a decision.

python -m bench.bench_batching [--messages N]     N messages a figure (200,000)
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from typing import Any

from gateways.batched_delivery import BatchedDelivery
from gateways.batching.batcher import Batcher, BatchSetting
from gateways.batching.controller import Controller, ControllerSettings
from gateways.batching.observation import LinkState, Observation
from gateways.batching.partition import partitioner
from gateways.batching.period import Period
from gateways.batching.policies import POLICIES
from gateways.batching.rules import Bounds
from gateways.counters import Counters
from gateways.kafka_delivery import KafkaDelivery
from gateways.watched_delivery import WatchedDelivery
from schemas.topics import KafkaTopics, vehicle_id

VEHICLES = 500
PARTITIONS = 2
SETTINGS = tuple(BatchSetting(messages, 100.0) for messages in (1, 3, 10, 100, 1_000))
REPEATS = 5
LIMIT_MS = 350.0
RATES_PER_S = (20.0, 200.0, 2_000.0, 10_000.0)


def best_us(messages: int, work: Callable[[], None]) -> float:
    """Return the least CPU time a message of a few attempts: others on the machine only ever add."""
    times_s = []
    for _ in range(REPEATS):
        began_s = time.thread_time()
        work()
        times_s.append(time.thread_time() - began_s)
    return min(times_s) / messages * 1e6


def batcher_us(messages: int, setting: BatchSetting) -> float:
    """Return what the batcher adds: the partition of a remembered key, the clock, the batch and its deadline."""
    keys = [vehicle_id(number % VEHICLES + 1).encode() for number in range(messages)]
    partition_of = partitioner(PARTITIONS)
    clock_s = time.monotonic

    def bare() -> None:
        for _key in keys:
            pass

    def batched() -> None:
        batcher: Batcher[bytes] = Batcher(setting)
        add = batcher.add
        for key in keys:
            closed = add(partition_of(key), key, clock_s())
            if closed is not None:
                for _item in closed:
                    pass

    return best_us(messages, batched) - best_us(messages, bare)


class Paper:
    """A producer that takes every record and reports none until asked."""

    fatal = None

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def produce(self, *_: Any, on_delivery: Any, **__: Any) -> None:
        self.reports.append(on_delivery)

    def confirm(self) -> None:
        reports, self.reports = self.reports, []
        for report in reports:
            report(None, b"payload")

    def poll(self, _timeout_s: float) -> None:
        pass


def delivery_us(messages: int, setting: BatchSetting | None, *, timed: bool = False) -> float:
    """Return the CPU time of a delivery whose producer costs next to nothing, confirmations included."""
    keys = [vehicle_id(number % VEHICLES + 1).encode() for number in range(messages)]
    producer = Paper()
    common: dict[str, Any] = {
        "producer": producer, "topics": KafkaTopics(), "counters": Counters(), "fatal": print,
    }  # fmt: skip
    delivery: KafkaDelivery
    if setting is None:
        delivery = KafkaDelivery(**common)
    else:
        common |= {"setting": setting, "partition_of": partitioner(PARTITIONS)}
        period = Period(LIMIT_MS, 0.0)
        delivery = WatchedDelivery(period=period, **common) if timed else BatchedDelivery(**common)
    delivery.acknowledge = lambda _receipt: None
    deliver = delivery.deliver

    def work() -> None:
        for key in keys:
            deliver(key, b"payload", [], None)
        delivery.flush()
        producer.confirm()

    return best_us(messages, work)


def decision_ms(policy: str, per_s: float) -> float:
    """Return the CPU time of a decision of a gateway that takes so many messages a second."""
    bounds = Bounds(BatchSetting(10, 100.0), 1_000)
    controller = Controller(ControllerSettings(policy, LIMIT_MS, 10.0, bounds, PARTITIONS))
    answers_ms = tuple(30.0 + number / 100 for number in range(2_000))
    link = LinkState(33.0, 555.0, 150.0, 31.0, 0.05, 1_448, "cubic")
    observation = Observation(per_s, answers_ms, 0.0, link)
    return best_us(1, lambda: controller.decide(observation, 0.0) and None) / 1e3


async def main(messages: int) -> None:
    """Print a line a setting, and a line a policy."""
    without_us = delivery_us(messages, None)
    print(
        f"{'setting':24} {'batcher':>10} {'delivery':>10} {'more':>10} {'timed, more':>12}   CPU us a message"
    )
    print(f"{'none':24} {'':>10} {without_us:10.2f}")
    for setting in SETTINGS:
        name = f"{setting.messages} messages, {setting.wait_ms:g} ms"
        whole_us, timed_us = (delivery_us(messages, setting, timed=timed) for timed in (False, True))
        print(
            f"{name:24} {batcher_us(messages, setting):10.2f} {whole_us:10.2f} {whole_us - without_us:10.2f}"
            f" {timed_us - without_us:12.2f}",
            flush=True,
        )
    print(f"\n{'policy':24}", *(f"{per_s:6.0f}/s" for per_s in RATES_PER_S), "  CPU ms a decision")
    for policy in POLICIES:
        print(f"{policy:24}", *(f"{decision_ms(policy, per_s):8.2f}" for per_s in RATES_PER_S), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    asyncio.run(main(parser.parse_args().messages))
