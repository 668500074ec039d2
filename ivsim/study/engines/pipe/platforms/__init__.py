"""The table of platforms, each a way of a record from producer to consumer; a new one is a file and a line here.

A plug-in of `ivsim.platforms` is a row, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from schemas.errors import Refusal
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


def promising() -> list[str]:
    """Return the platforms that can be told what an acknowledgement of theirs means."""
    return [name for name in PLATFORMS if platform_named(name).durability]


def check_promises(names: Sequence[str], durabilities: Sequence[str]) -> None:
    """Refuse a platform that is not there or cannot be had, and a durability that it has not."""
    for name in names:
        if name not in promising():
            raise Refusal(f"PLATFORM {name!r}: allowed are {', '.join(promising())}")
        row = platform_named(name)
        lack = row.missing()
        if lack is not None:
            raise Refusal(lack)
        for mode in durabilities:
            if mode not in row.durability:
                raise Refusal(f"--durability {mode!r}: {name} has {', '.join(row.durability)}")
