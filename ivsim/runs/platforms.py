"""The platforms of `--topology ingest` beside Kafka: a server that outlives runs, and a topic of messages for each.

Where they stand is `ivsim.testbed`, how gateways write to them `gateways.sinks`, how the consumer reads `ivsim.ingest`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, ClassVar, Final

from ivsim.runs.memory import machine_bytes
from ivsim.testbed.process import NotReady
from ivsim.testbed.pulsar import NAME as PULSAR
from ivsim.testbed.pulsar import PulsarServer
from ivsim.testbed.redis import NAME as REDIS
from ivsim.testbed.redis import RedisServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.server import Server
from ivsim.testbed.servers import KAFKA
from schemas.platforms import PULSAR_NAMESPACE, partitions_key, stream
from schemas.topics import KafkaTopics

# Of the machine's: a rewrite of its file may copy what is changed meanwhile, and all else of a run needs its own.
REDIS_MEMORY_SHARE: Final = 0.4
# By durability.
FSYNC: Final[Mapping[str, str]] = {"cache": "everysec", "synced": "always"}
ANSWER_S: Final = 30.0


class OpenPlatform(ABC):
    """A platform's server, and what a run has on it; made of a run's record.

    Attributes:
        kind: of the server, a key of SERVERS.
        server: opened and closed by its owner.
    """

    kind: ClassVar[str]
    server: Server

    @abstractmethod
    def __init__(self, record: RunRecord) -> None: ...

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Return where clients find it."""

    @abstractmethod
    def make_topics(self, topics: KafkaTopics, partitions: int, *, synced: bool) -> None:
        """Make room for a run's messages and dead letters.

        With `synced` the server flushes to its disk before it confirms; else what its operating system has is confirmed.
        """

    @abstractmethod
    def remove_topics(self, topics: KafkaTopics, partitions: int) -> None:
        """Remove what a run has left; nothing of a server that has died."""


class OpenRedis(OpenPlatform):
    """Streams in one server, with an append-only file."""

    kind: ClassVar[str] = REDIS

    def __init__(self, record: RunRecord) -> None:
        memory_mib = int(REDIS_MEMORY_SHARE * machine_bytes()) // 2**20
        self.server: RedisServer = RedisServer(record, memory_mib=memory_mib)

    @property
    def bootstrap(self) -> str:
        return f"{self.server.host}:{self.server.port}"

    def _asked(self) -> Any:
        from redis import Redis  # noqa: PLC0415 - 0.2 s, and most runs have none

        return contextlib.closing(Redis(self.server.host, self.server.port, socket_timeout=ANSWER_S))

    def make_topics(self, topics: KafkaTopics, partitions: int, *, synced: bool) -> None:
        with self._asked() as asked:
            asked.config_set("appendfsync", FSYNC["synced" if synced else "cache"])
            # Into its file too: a server that is started again must keep the promise from its first answer on.
            asked.config_rewrite()
            for topic in (topics.status, topics.dead_letter):
                asked.set(partitions_key(topic), partitions)

    def remove_topics(self, topics: KafkaTopics, partitions: int) -> None:
        keys = [
            key
            for topic in (topics.status, topics.dead_letter)
            for key in (partitions_key(topic), *(stream(topic, one) for one in range(partitions)))
        ]
        from redis import RedisError  # noqa: PLC0415

        with contextlib.suppress(RedisError), self._asked() as asked:
            asked.delete(*keys)
            asked.bgrewriteaof()


class OpenPulsar(OpenPlatform):
    """Partitioned topics of a standalone Pulsar."""

    kind: ClassVar[str] = PULSAR

    def __init__(self, record: RunRecord) -> None:
        self.server: PulsarServer = PulsarServer(record)

    @property
    def bootstrap(self) -> str:
        return self.server.url

    def make_topics(self, topics: KafkaTopics, partitions: int, *, synced: bool) -> None:
        self.server.sync(synced)
        for topic in (topics.status, topics.dead_letter):
            self.server.ask("PUT", f"/persistent/{PULSAR_NAMESPACE}/{topic}/partitions", partitions)

    def remove_topics(self, topics: KafkaTopics, partitions: int) -> None:
        del partitions
        for topic in (topics.status, topics.dead_letter):
            with contextlib.suppress(OSError, HTTPException, NotReady):
                self.server.ask("DELETE", f"/persistent/{PULSAR_NAMESPACE}/{topic}/partitions?force=true")


PLATFORMS: Final[Mapping[str, type[OpenPlatform]]] = {"redis": OpenRedis, "pulsar": OpenPulsar}
# Of each, and of Kafka, the server that it needs.
SERVER_OF: Final[Mapping[str, str]] = {KAFKA: KAFKA} | {name: made.kind for name, made in PLATFORMS.items()}
