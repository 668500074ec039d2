"""Makes the topics that the twin needs where the owner has not made them; it never changes or deletes one."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.errors import Refusal
from twin.config import TwinConfig
from twin.listed_topics import await_listed
from twin.new_topics import Copies, new_topic
from twin.source import warm_output_topic, warm_topic


def wanted(config: TwinConfig) -> list[NewTopic]:
    """Return the run's topics."""
    topics, partitions = config.topics, config.topic_partitions
    copies = Copies(config.topic_replication, config.topic_min_insync)
    small = [topics.dead_letter, topics.metrics, topics.emissions, topics.link]
    return [
        new_topic(topics.status, partitions, copies=copies),
        new_topic(topics.state, partitions, compact=True, copies=copies),
        *(new_topic(name, copies=copies) for name in (*small, warm_topic(config), warm_output_topic(config))),
    ]


def ensure_topics(config: TwinConfig) -> list[str]:
    """Create the topics that are missing and return their names; Refusal when Kafka does not answer within ten seconds.

    All are there for everyone when it returns.
    """
    admin = AdminClient({**config.kafka_client(), "socket.timeout.ms": 10_000, "log_level": 0})
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
    made = sorted(topic.topic for topic in missing)
    await_listed(admin, config.bootstrap, set(made))
    return made
