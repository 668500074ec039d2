"""What every topic of a run is like, whoever makes it; it makes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import NewTopic

MESSAGE_MAX_BYTES: Final = 16_777_216
# The ledger reads each update of the run once: nothing is compacted away before it.
_KEPT_MS: Final = 86_400_000


@dataclass(frozen=True)
class Copies:
    """On how many brokers a topic's records are.

    Attributes:
        replication: brokers that have each partition.
        min_insync: of those, how many must have a record before it is acknowledged.
    """

    replication: int = 1
    min_insync: int = 1


ONE: Final = Copies()


def new_topic(
    name: str,
    partitions: int = 1,
    *,
    compact: bool = False,
    copies: Copies = ONE,
    synced: bool = False,
) -> NewTopic:
    """Return a topic with the settings that the ledger relies on: stamped by the broker, kept as long as the run.

    With `compact` the newest record of each key stays, and for a day every one. With `synced` each broker flushes a record
    to its disk when it has it.
    """
    config = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MESSAGE_MAX_BYTES),
        "retention.ms": "-1",
        "cleanup.policy": "delete",
        "min.insync.replicas": str(copies.min_insync),
    }
    if synced:
        config["flush.messages"] = "1"
    if compact:
        config |= {"cleanup.policy": "compact", "min.compaction.lag.ms": str(_KEPT_MS)}
    return NewTopic(name, num_partitions=partitions, replication_factor=copies.replication, config=config)
