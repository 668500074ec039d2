"""Waits until the twin has taken every good record of vehicle.status; it changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

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
