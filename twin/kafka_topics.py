"""Makes the topics that the twin needs where the owner has not made them; it never changes or deletes one."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.errors import Refusal
from twin.config import TwinConfig
from twin.listed_topics import await_listed
from twin.source import warm_output_topic, warm_topic

_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def wanted(config: TwinConfig) -> list[NewTopic]:
    """Return the run's topics with the settings that the ledger relies on (append stamps by the broker)."""
    topics, parts = config.topics, config.topic_partitions
    large = {**_APPEND_TIME, "max.message.bytes": "20971520"}
    plain = [topics.dead_letter, topics.metrics, topics.emissions, topics.link]
    return [
        NewTopic(topics.status, parts, 1, config=large),
        NewTopic(topics.state, parts, 1, config={**large, "cleanup.policy": "compact", **_KEEP}),
        *(NewTopic(name, 1, 1, config=_APPEND_TIME) for name in plain),
        *(
            NewTopic(name, 1, 1, config=_APPEND_TIME)
            for name in (warm_topic(config), warm_output_topic(config))
        ),
    ]


# The ledger reads each update once: nothing of the active run is compacted away before it.
_KEEP = {"min.compaction.lag.ms": "86400000"}


def require(config: TwinConfig, timeout_s: float = 5.0) -> None:
    """Raise Refusal unless Kafka answers and has the topics of the twin."""
    admin = AdminClient({"bootstrap.servers": config.bootstrap, "log_level": 0})
    try:
        present = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise Refusal(
            f"bootstrap {config.bootstrap}: Kafka does not answer ({error.args[0].str()})"
        ) from error
    for name in (config.topics.status, config.topics.state):
        if name not in present:
            raise Refusal(f"bootstrap {config.bootstrap}: no topic {name}")


def ensure_topics(config: TwinConfig) -> None:
    """Create the topics that are missing; Refusal when Kafka does not answer within ten seconds.

    All are there for everyone when it returns.
    """
    admin = AdminClient({"bootstrap.servers": config.bootstrap, "socket.timeout.ms": 10_000, "log_level": 0})
    try:
        present = admin.list_topics(timeout=10).topics
    except KafkaException as error:
        raise Refusal(
            f"bootstrap {config.bootstrap}: Kafka does not answer ({error.args[0].str()})"
        ) from error
    missing = [topic for topic in wanted(config) if topic.topic not in present]
    for future in admin.create_topics(missing).values() if missing else ():
        try:
            future.result(15)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Refusal(f"bootstrap {config.bootstrap}: {error.args[0].str()}") from error
    await_listed(admin, config.bootstrap, {topic.topic for topic in missing})
