"""Batching: CPU time of the batcher a message, and of the whole delivery with and without it.

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
from gateways.batching.partition import partitioner
from gateways.counters import Counters
from gateways.kafka_delivery import KafkaDelivery
from schemas.topics import KafkaTopics, vehicle_id

VEHICLES = 500
PARTITIONS = 2
SETTINGS = tuple(BatchSetting(messages, 100.0) for messages in (1, 3, 10, 100, 1_000))
REPEATS = 5


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
    """A producer that takes every record and reports none."""

    fatal = None

    def produce(self, *_: Any, **__: Any) -> None:
        pass

    def poll(self, _timeout_s: float) -> None:
        pass


def delivery_us(messages: int, setting: BatchSetting | None) -> float:
    """Return the CPU time of a delivery whose producer costs next to nothing."""
    keys = [vehicle_id(number % VEHICLES + 1).encode() for number in range(messages)]
    common: dict[str, Any] = {
        "producer": Paper(), "topics": KafkaTopics(), "counters": Counters(), "fatal": print,
    }  # fmt: skip
    delivery = (
        KafkaDelivery(**common)
        if setting is None
        else BatchedDelivery(setting=setting, partition_of=partitioner(PARTITIONS), **common)
    )
    deliver = delivery.deliver

    def work() -> None:
        for key in keys:
            deliver(key, b"payload", [], None)

    return best_us(messages, work)


async def main(messages: int) -> None:
    """Print a line a setting."""
    without_us = delivery_us(messages, None)
    print(f"{'setting':24} {'batcher':>10} {'delivery':>10} {'more than without':>18}   CPU us a message")
    print(f"{'none':24} {'':>10} {without_us:10.2f}")
    for setting in SETTINGS:
        name = f"{setting.messages} messages, {setting.wait_ms:g} ms"
        whole_us = delivery_us(messages, setting)
        print(
            f"{name:24} {batcher_us(messages, setting):10.2f} {whole_us:10.2f} {whole_us - without_us:18.2f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    asyncio.run(main(parser.parse_args().messages))
