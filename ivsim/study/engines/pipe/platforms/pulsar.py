"""Pulsar of the measurement's own: broker and bookie in one process, and a partitioned topic for each measurement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from ivsim.study.engines.pipe.platforms.base import LOOPBACK, Host, OpenPlatform, Place, Platform
from ivsim.testbed.process import NotReady
from ivsim.testbed.pulsar import CLIENT, CLIENT_VERSION, MESSAGE_BYTES, NAME, REMEDY, PulsarServer, install
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.servers import SERVERS
from schemas.errors import Refusal
from schemas.namespace import inside
from schemas.platforms import PULSAR_NAMESPACE

CLIENTS: Final = "ivsim.study.engines.pipe.platforms.pulsar_clients"
CODECS: Final = ("none", "snappy", "lz4", "zstd")


class Pulsar(Platform):
    """A standalone Pulsar; see the module."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "Apache Pulsar, broker and bookie in one process, by pulsar-client"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"codec", "linger_ms", "batch_bytes", "batch_messages", "commit", "durability", "link", "partitioner"}
    )
    clients: ClassVar[str] = CLIENTS
    packages: ClassVar[tuple[str, ...]] = (CLIENT,)
    seconds: ClassVar[float] = 12.0
    has_brokers: ClassVar[bool] = True
    record_bytes: ClassVar[int] = MESSAGE_BYTES
    durability: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"cache": "journalSyncData=false", "synced": "journalSyncData=true"}
    )
    restarts_to_sync: ClassVar[bool] = True

    def missing(self) -> str | None:
        try:
            SERVERS[NAME].find()
            found = metadata.version(CLIENT)
        except Refusal as refusal:
            return str(refusal)
        except metadata.PackageNotFoundError:
            found = "missing"
        if found != CLIENT_VERSION:
            return f"{CLIENT} {found}, wanted {CLIENT_VERSION}: run `{REMEDY}`"
        return None

    def install(self) -> None:
        install()

    def refuses(self, settings: Mapping[str, Any]) -> tuple[str, str] | None:
        if settings["codec"] not in CODECS:
            return "codec", f"it is one of {', '.join(CODECS)}"
        if settings["linger_ms"] % 1:
            return "linger_ms", "it is a whole number of ms"
        return super().refuses(settings)

    def acknowledges(self, settings: Mapping[str, Any]) -> bool:
        del settings
        return True

    @contextmanager
    def open(
        self, record: RunRecord, work: Path, brokers: int = 1, host: Host = LOOPBACK
    ) -> Iterator[OpenPlatform]:
        del work, brokers
        made = PulsarServer(record, host=host.address, namespace=host.namespace)
        with made.stand_on(host.machine) as server:
            yield Topics(server, host.namespace)


class Topics:
    """A partitioned topic for each measurement, on a server that stays up for all.

    Args:
        server: the server.
        namespace: in which it stands; who reads from it stands there meanwhile.
    """

    def __init__(self, server: PulsarServer, namespace: str | None = None) -> None:
        self._server = server
        self._namespace = namespace
        # messages of each partition that were there when the server was last started
        self._before: dict[str, dict[int, int]] = {}
        self._places: dict[str, Place] = {}
        self._counted = True

    def place(self, name: str, settings: Mapping[str, Any]) -> Place:
        """Make the topic; the journal's fsync is the whole server's, which is restarted for another."""
        self._server.sync(settings.get("durability", "cache") == "synced")
        partitions = settings["partitions"]
        self._server.ask("PUT", f"/persistent/{PULSAR_NAMESPACE}/{name}/partitions", partitions)
        place = {
            "url": self._server.url,
            "name": name,
            "topic": f"persistent://{PULSAR_NAMESPACE}/{name}",
            "partitions": partitions,
        }
        self._places[name] = place
        self._before[name] = dict.fromkeys(range(partitions), 0)
        return place

    def ends(self, place: Place) -> dict[int, int]:
        """Return how many messages each partition has: those that came since the start, and those before it."""
        before = self._before[place["name"]]
        return {one: count + self._came(place, one) for one, count in before.items()}

    def _came(self, place: Place, partition: int) -> int:
        path = f"/persistent/{PULSAR_NAMESPACE}/{place['name']}-partition-{partition}/stats"
        return int(self._server.ask("GET", path)["msgInCounter"])

    def stored_bytes(self, place: Place) -> int | None:
        """Return None: journal and entry log are shared, and allotted ahead."""
        del place
        return None

    def pids(self) -> Mapping[str, int]:
        return {"broker-0": self._server.process.pid}

    def check(self) -> None:
        self._server.process.check()

    def kill(self, index: int) -> None:
        del index
        self._server.process.kill()
        self._server.relaunch()
        self._counted = False

    def back(self, place: Place) -> bool:
        del place
        self.check()
        if not self._server.ready():
            return False
        if not self._counted:
            self._count()
            self._counted = True
        return True

    def _count(self) -> None:
        """Count what it has kept: its own counters begin again."""
        count = import_module(CLIENTS).count
        for name, place in self._places.items():
            # A topic that is opened again has a new ledger: what its counter counts is in that.
            with inside(self._namespace):  # its threads stay where they were born
                self._before[name] = {
                    one: count(place, one, (self._ledger(name, one), -1, -1))
                    for one in range(place["partitions"])
                }

    def _ledger(self, name: str, partition: int) -> int:
        """Return the ledger that a partition is written to."""
        found = self._server.ask(
            "GET", f"/persistent/{PULSAR_NAMESPACE}/{name}-partition-{partition}/internalStats"
        )
        return int(found["ledgers"][-1]["ledgerId"])

    def clear(self, place: Place) -> None:
        self._places.pop(place["name"], None)
        self._before.pop(place["name"], None)
        # One that has died is told elsewhere; its data goes with its directory.
        with contextlib.suppress(OSError, HTTPException, NotReady):
            self._server.ask(
                "DELETE", f"/persistent/{PULSAR_NAMESPACE}/{place['name']}/partitions?force=true"
            )
