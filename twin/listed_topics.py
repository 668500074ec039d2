"""Waits until Kafka's brokers know topics that its controller has made, and lead them."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from schemas.errors import Refusal

# A disk that stands still holds Kafka up for as long: it syncs files of each partition before it leads it.
LISTED_S: Final = 60.0
ANSWER_S: Final = 5.0  # to one question: one that is lost is asked again
POLL_S: Final = 0.02


def await_listed(admin: AdminClient, bootstrap: str, names: set[str]) -> None:
    """Return once the broker lists `names`, and every partition of them answers; Refusal when not after 60 s.

    A KRaft controller answers for a topic some time before the broker's own view has it (up to a second on a busy
    machine), and whoever asks in between is told that there is none. A broker in turn lists a topic with its leader
    some time before it leads it: whoever writes or reads in between is told NOT_LEADER_FOR_PARTITION, and waits for
    librdkafka's next look at the metadata.
    """
    deadline_s = time.monotonic() + LISTED_S
    while True:
        partitions = _led(admin, names)
        lacking = "does not list" if partitions is None else "does not lead"
        if partitions is not None and _answer(admin, partitions):
            return
        if time.monotonic() > deadline_s:
            raise Refusal(f"Kafka on {bootstrap} {lacking} its new topics after {LISTED_S:g} s")
        time.sleep(POLL_S)  # Kafka tells nobody of a new topic: it has to be asked


def _led(admin: AdminClient, names: set[str]) -> list[TopicPartition] | None:
    """Return the partitions of the topics; None where one is not listed, or lists no leader."""
    try:
        topics = admin.list_topics(timeout=ANSWER_S).topics
    except KafkaException:
        return None  # no answer is no topic: asked again until the deadline
    if not names <= set(topics):
        return None
    found = [(name, part) for name in names for part in topics[name].partitions.values()]
    if not all(topics[name].partitions for name in names) or any(part.leader < 0 for _, part in found):
        return None
    return [TopicPartition(name, part.id) for name, part in found]


def _answer(admin: AdminClient, partitions: list[TopicPartition]) -> bool:
    """Return whether the leader of each partition says its end: it leads it then."""
    asked = {one: OffsetSpec.latest() for one in partitions}
    futures = admin.list_offsets(asked, request_timeout=ANSWER_S) if asked else {}
    try:
        for future in futures.values():
            future.result(ANSWER_S)
    except (KafkaException, TimeoutError):
        return False
    return True
