"""Redis Streams of the measurement's own: one server, and a stream for each partition of a measurement."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import redis

from ivsim.runs.memory import machine_bytes
from ivsim.runs.platforms import FSYNC, REDIS_MEMORY_SHARE
from ivsim.study.engines.pipe.platforms.base import LOOPBACK, Host, OpenPlatform, Place, Platform, Tool
from ivsim.study.engines.pipe.platforms.redis_clients import GROUP, RECORD_BYTES, client, stream
from ivsim.testbed.process import NotReady
from ivsim.testbed.redis import NAME as SERVER
from ivsim.testbed.redis import RedisServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.servers import SERVERS
from schemas.errors import Refusal
from schemas.namespace import inside

# Of its memory; the rest goes into entries' nodes and into sizes rounded up (a quarter of 65,000 B).
PAYLOAD_SHARE: Final = 0.6
REWRITE_S: Final = 30.0
WRITE_S: Final = 30.0
LOOK_S: Final = 0.01
TOOL: Final = "redis-benchmark"
# Commands of its own on their way at most: more bring nothing, and it holds all in memory.
PIPELINE: Final = 100


def _benchmark(place: Place, settings: Mapping[str, Any], records: int, record_bytes: int) -> list[str]:
    """Return the command of redis-benchmark: one connection, and as many commands on their way as our batches have."""
    batch = min(PIPELINE, settings["batch_messages"], max(1, settings["batch_bytes"] // record_bytes))
    return [
        *(shutil.which(TOOL) or TOOL, "-h", place["host"], "-p", str(place["port"])),
        *("-n", str(records), "-c", "1", "-P", str(batch), "-q", "-x"),
        *("xadd", stream(place, 0), "*", "v"),
    ]


class Redis(Platform):
    """A server with an append-only file; see the module."""

    name: ClassVar[str] = "redis"
    summary: ClassVar[str] = "Redis Streams, one server, by redis-py and hiredis"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"linger_ms", "batch_bytes", "batch_messages", "commit", "durability", "link", "partitioner"}
    )
    clients: ClassVar[str] = "ivsim.study.engines.pipe.platforms.redis_clients"
    packages: ClassVar[tuple[str, ...]] = ("redis", "hiredis")
    seconds: ClassVar[float] = 0.5
    has_brokers: ClassVar[bool] = True
    record_bytes: ClassVar[int] = RECORD_BYTES
    durability: ClassVar[Mapping[str, str]] = MappingProxyType(
        {mode: f"appendonly yes, appendfsync {value}" for mode, value in FSYNC.items()}
    )
    tool: ClassVar[Tool | None] = Tool(TOOL, _benchmark, re.compile(r"([0-9.]+) requests per second"))

    def missing(self) -> str | None:
        try:
            SERVERS[SERVER].find()
        except Refusal as refusal:
            return str(refusal)
        return None

    def room_bytes(self) -> int:
        return int(PAYLOAD_SHARE * REDIS_MEMORY_SHARE * machine_bytes())

    def acknowledges(self, settings: Mapping[str, Any]) -> bool:
        del settings
        return True

    @contextmanager
    def open(
        self, record: RunRecord, work: Path, brokers: int = 1, host: Host = LOOPBACK
    ) -> Iterator[OpenPlatform]:
        del work, brokers
        memory_mib = int(REDIS_MEMORY_SHARE * machine_bytes()) // 2**20
        made = RedisServer(record, host=host.address, namespace=host.namespace, memory_mib=memory_mib)
        with made.stand_on(host.machine) as server, client(server.host, server.port) as asked:
            yield Streams(server, asked, host.namespace)


class Streams:
    """Streams for each measurement, on a server that stays up for all.

    Args:
        server: the server.
        asked: its client.
        namespace: in which the server stands; who asks it stands there meanwhile.
    """

    def __init__(self, server: RedisServer, asked: redis.Redis, namespace: str | None = None) -> None:
        self._server = server
        self._client = asked
        self._namespace = namespace
        # file bytes and rewrites when a place was made
        self._before: dict[str, tuple[int, int]] = {}

    def place(self, name: str, settings: Mapping[str, Any]) -> Place:
        place = {
            "host": self._server.host,
            "port": self._server.port,
            "name": name,
            "partitions": settings["partitions"],
        }
        with inside(self._namespace):
            self._client.config_set("appendfsync", FSYNC[settings.get("durability", "cache")])
            # Into its file too: a server that is started again must keep the promise from its first answer on.
            self._client.config_rewrite()
            for partition in range(place["partitions"]):
                self._client.xgroup_create(
                    stream(place, partition), GROUP, "0", mkstream=True, entries_read=0
                )
            self._before[name] = self._file()
        return place

    def _file(self) -> tuple[int, int]:
        """Return the bytes of the append-only file, and how often it was written anew.

        Redis answers before the file has a change when an earlier fsync is still under way (`everysec`: for up to 2 s),
        so what it holds back is waited for.
        """
        until_s = time.monotonic() + WRITE_S
        while time.monotonic() < until_s:
            found = self._client.info("persistence")
            if not found["aof_buffer_length"]:
                return int(found["aof_current_size"]), int(found["aof_rewrites"])
            time.sleep(LOOK_S)  # Redis tells of its buffer only when it is asked
        raise NotReady(f"Redis did not write its append-only file within {WRITE_S:g} s")

    def ends(self, place: Place) -> dict[int, int]:
        with inside(self._namespace):
            return {one: int(self._client.xlen(stream(place, one))) for one in range(place["partitions"])}

    def stored_bytes(self, place: Place) -> int | None:
        """Return what the file grew by, what readers said included; None once it was written anew."""
        with inside(self._namespace):
            size, rewrites = self._file()
        size_before, rewrites_before = self._before[place["name"]]
        return size - size_before if rewrites == rewrites_before else None

    def pids(self) -> Mapping[str, int]:
        return {"broker-0": self._server.process.pid}

    def check(self) -> None:
        self._server.process.check()

    def kill(self, index: int) -> None:
        del index
        self._server.process.kill()
        self._server.relaunch()

    def back(self, place: Place) -> bool:
        del place
        self.check()
        return self._server.ready()

    def clear(self, place: Place) -> None:
        """Remove the streams, from the file too: the next measurement begins with an empty one."""
        self._before.pop(place["name"], None)
        # One that has died holds nothing any more, and its end is told elsewhere.
        with contextlib.suppress(redis.ConnectionError), inside(self._namespace):
            self._client.delete(*(stream(place, one) for one in range(place["partitions"])))
            self._rewritten()

    def _rewritten(self) -> None:
        until_s = time.monotonic() + REWRITE_S
        asked = False
        while time.monotonic() < until_s:
            found = self._client.info("persistence")
            busy = found["aof_rewrite_in_progress"] or found["aof_rewrite_scheduled"]
            if not busy and asked:
                return
            if not busy:
                self._client.bgrewriteaof()
                asked = True
            time.sleep(LOOK_S)  # Redis tells of a rewrite only when it is asked
        raise NotReady(f"Redis did not write its append-only file anew within {REWRITE_S:g} s")
