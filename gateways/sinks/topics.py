"""Whether Kafka answers and has the topics of a gateway; librdkafka asks, whichever library sends."""

from __future__ import annotations

import typing
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from schemas.errors import Refusal


class ListsTopics(typing.Protocol):
    """A producer, consumer or administrator of confluent-kafka."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any: ...


def require_topics(
    asked: ListsTopics, bootstrap: str, topics: tuple[str, ...], timeout_s: float = 10.0
) -> None:
    """Refusal when Kafka does not answer or a topic is missing."""
    try:
        known = asked.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise Refusal(f"Kafka at {bootstrap} does not answer: {error.args[0].str()}") from None
    missing = [topic for topic in topics if topic not in known]
    if missing:
        raise Refusal(f"Kafka at {bootstrap} has no topic {', '.join(missing)}")


def message_limits(
    asked: AdminClient, bootstrap: str, topics: tuple[str, ...], most: int, timeout_s: float = 10.0
) -> dict[str, int]:
    """Return the largest batch that each topic takes, `most` where it takes more; Refusal where Kafka does not say."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    try:
        answers = asked.describe_configs(resources, request_timeout=timeout_s)
        found = {
            resource.name: answer.result()["max.message.bytes"].value for resource, answer in answers.items()
        }
    except KafkaException as error:
        raise Refusal(
            f"Kafka at {bootstrap} does not tell max.message.bytes: {error.args[0].str()}"
        ) from None
    return {topic: min(most, int(value)) for topic, value in found.items()}
