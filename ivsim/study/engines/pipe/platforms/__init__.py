"""The table of platforms, each a way of a record from producer to consumer; a new one is a file and a line here.

A plug-in of `ivsim.platforms` is a row, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas.plugins import Plugin, Table, checked, made

if TYPE_CHECKING:
    from ivsim.study.engines.pipe.platforms.base import Platform

# what `--platform` is -> module:class, loaded when it is asked for: clients' processes import none but their own
_OWN = {
    "kafka": "ivsim.study.engines.pipe.platforms.kafka:Kafka",
    "kafka-aiokafka": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaAiokafka",
    "kafka-python": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaPython",
    "kafka-jpype": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaJpype",
    "kafka-jpype-batched": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaJpypeBatched",
    "kafka-py4j": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaPy4j",
    "kafka-java": "ivsim.study.engines.pipe.platforms.kafka_libraries.rows:KafkaJava",
    "pulsar": "ivsim.study.engines.pipe.platforms.pulsar:Pulsar",
    "redis": "ivsim.study.engines.pipe.platforms.redis:Redis",
    "null": "ivsim.study.engines.pipe.platforms.null:Null",
}


def _row(plugin: Plugin, found: object) -> Platform:
    from ivsim.study.engines.pipe.platforms.base import Platform  # noqa: PLC0415 - when there is one to check

    platform: Platform = checked(made(found), plugin.name, Platform)
    return platform


PLATFORMS: Final[Table[Platform]] = Table("ivsim.platforms", _OWN, _row)


def platform_named(name: str) -> Platform:
    """Return a platform of the table; KeyError for an unknown one."""
    return PLATFORMS[name]
