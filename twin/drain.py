"""Waits until the twin has taken every good record of vehicle.status, and other queries what is theirs; it changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pyspark.sql.streaming import StreamingQuery

from twin.run_topics import RunTopics


def await_applied(
    topics: RunTopics, alive: Callable[[], None], timeout_s: float, pause_s: float = 0.2
) -> str | None:
    """Wait until all is applied; None then, else a line that says how many records the twin has not taken.

    What it has read stays in `topics`. `alive` raises when the twin has died.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        taken, due = topics.taken_and_due()
        if taken >= due:
            return None
        alive()
        if time.monotonic() >= deadline:
            return f"the twin has taken {taken} of {due} good records after {timeout_s:g} s"
        time.sleep(pause_s)


def take_all(query: StreamingQuery, limit_s: float) -> None:
    """Let a micro-batch query take what is in Kafka; TimeoutError where it has not after `limit_s`."""
    failed: list[BaseException] = []

    def take() -> None:
        try:
            query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            failed.append(error)

    # Spark has no limit of its own here, and waits for ever for a Kafka that is gone.
    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    taking.join(limit_s)
    if taking.is_alive():
        raise TimeoutError(f"query {query.name} has not taken all that there is in {limit_s:g} s")
    if failed:
        raise failed[0]
