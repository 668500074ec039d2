"""Waits until Kafka's brokers know topics that its controller has made."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from schemas.errors import Refusal

LISTED_S: Final = 15.0
POLL_S: Final = 0.02


def await_listed(admin: AdminClient, bootstrap: str, names: set[str]) -> None:
    """Return once the broker lists `names` with their leaders; Refusal when it has not after 15 s.

    A KRaft controller answers for a topic some time before the broker's own view has it (up to a second on a busy
    machine), and whoever asks in between is told that there is none.
    """
    deadline_s = time.monotonic() + LISTED_S
    while not names <= _led_topics(admin):
        if time.monotonic() > deadline_s:
            raise Refusal(f"Kafka on {bootstrap} does not list its new topics after {LISTED_S:g} s")
        time.sleep(POLL_S)  # Kafka tells nobody of a new topic: it has to be asked


def _led_topics(admin: AdminClient) -> set[str]:
    try:
        topics = admin.list_topics(timeout=LISTED_S).topics
    except KafkaException:
        return set()  # no answer is no topic: asked again until the deadline
    return {
        name
        for name, topic in topics.items()
        if topic.partitions and all(part.leader >= 0 for part in topic.partitions.values())
    }
