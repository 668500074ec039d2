"""Several Kafka brokers of the run's own that are one cluster: each is broker and controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ivsim.testbed.kafka import KafkaServer, cluster_id
from ivsim.testbed.kafka_listener import IN_THE_CLEAR, PLAINTEXT, Listener, SaslSsl
from ivsim.testbed.registry import RunRecord
from schemas.java import Jit

if TYPE_CHECKING:
    # Loads pyroute2: not before a server stands on one.
    from ivsim.testbed.machine import Machine

# A broker that shares a machine with others: 350 to 400 MiB resident after some work.
HEAP_MB: Final = 384


@contextmanager
def kafka_cluster(
    record: RunRecord,
    brokers: int,
    *,
    name: str = "kafka",
    security: str = PLAINTEXT,
    keystore: Path | None = None,
    host: str = "127.0.0.1",
    namespace: str | None = None,
    machine: Machine | None = None,
    relayed: Sequence[str] = (),
    jit: Jit = "quick",
    storages: Sequence[Path] | None = None,
) -> Iterator[list[KafkaServer]]:
    """Start so many brokers, and end them with the context; all answer when it begins.

    What Kafka keeps for itself (how far consumers have read) has a replica on each broker, and may be written while one
    of three is away.

    Args:
        record: of the run; their logs lie in its directory.
        brokers: how many; one is a cluster too.
        name: of process, directory and log of the first; the others' have their number behind it.
        security: how all clients meet them, and they each other; `sasl-ssl` with keys and an account of the cluster's.
        keystore: PEM file for listeners of TLS beside the plain ones.
        host: address of their listeners.
        namespace: in which they stand; None: this host's own.
        machine: a computer of its own for one broker alone; None: this host.
        relayed: further addresses, HOST:PORT, at which clients find a broker that is alone by a relay each.
        jit: how far their Java compiles.
        storages: the logs of a cluster that was, by its brokers' ids, which stay; None: new ones.

    Raises:
        ValueError: a machine, or relays, for several.
    """
    if machine is not None and brokers > 1:
        raise ValueError(f"{brokers} brokers on one machine: it has a disk for one")
    if relayed and brokers > 1:
        raise ValueError(f"{brokers} brokers behind relays: they lead to one")
    more = {
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.replication.factor": str(brokers),
        "share.coordinator.state.topic.replication.factor": str(brokers),
    }
    with ExitStack() as stack:
        listener = IN_THE_CLEAR if security == PLAINTEXT else _secured(record, name, relayed, stack)
        servers = [
            KafkaServer(
                record,
                name=name if node == 1 else f"{name}-{node}",
                heap_mb=512 if brokers == 1 else HEAP_MB,
                node=node,
                keystore=keystore,
                host=host,
                namespace=namespace,
                listener=listener,
                relayed=relayed,
                jit=jit,
                storage=None if storages is None else storages[node - 1],
            ).stand_on(machine)
            for node in range(1, brokers + 1)
        ]
        for server in servers:
            stack.callback(server.close)
            server.reserve()
        voters, cluster = [server.voter for server in servers], cluster_id()
        with ThreadPoolExecutor(brokers) as pool:
            list(pool.map(lambda server: server.prepare(voters, cluster, more), servers))
        # From this thread, which lives as long as they do: they end with it.
        for server in servers:
            server.relaunch()
        for server in servers:
            server.await_answer()
        yield servers


def _secured(record: RunRecord, name: str, relayed: Sequence[str], stack: ExitStack) -> Listener:
    hosts = [address.rpartition(":")[0] for address in relayed]
    keys = SaslSsl(record.directory / f"{name}-keys", hosts)
    record.scratch(keys.directory)
    stack.callback(keys.remove)
    return keys.make()


def bootstrap_of(servers: Sequence[KafkaServer]) -> str:
    """Return where clients find the cluster: the addresses of all its brokers."""
    return ",".join(server.bootstrap for server in servers)
