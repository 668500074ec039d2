"""How long the testbed's servers take to start and to stop, each from nothing; medians of three."""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics

REPETITIONS = 3


def seconds(server: Callable[[RunRecord], AbstractContextManager[Any]]) -> tuple[float, float]:
    """Return the time until it answers and the time until it is gone."""
    with tempfile.TemporaryDirectory() as name, RunRecord(f"b{uuid.uuid4().hex[:8]}", Path(name)) as record:
        began_s = time.monotonic()
        with server(record) as running:
            started_s = time.monotonic()
            if isinstance(running, KafkaServer):
                create_topics(running.bootstrap, KafkaTopics())
                print(f"  the topics of a run: {time.monotonic() - started_s:.2f} s")
            stopping_s = time.monotonic()
        return started_s - began_s, time.monotonic() - stopping_s


def main() -> None:
    """Print one table."""
    table = Table("server", "start s", "stop s")
    for server in (KafkaServer, MosquittoServer, RabbitmqServer):
        times = [seconds(server) for _ in range(REPETITIONS)]
        start_s, stop_s = (statistics.median(column) for column in zip(*times, strict=True))
        table.add_row(server.__name__, f"{start_s:.2f}", f"{stop_s:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
