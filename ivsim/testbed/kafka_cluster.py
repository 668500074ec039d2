"""Several Kafka brokers of the run's own that are one cluster: each is broker and controller, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ivsim.testbed.kafka import KafkaServer, cluster_id
from ivsim.testbed.machine import Machine
from ivsim.testbed.registry import RunRecord

# A broker that shares a machine with others: 350 to 400 MiB resident after some work.
HEAP_MB: Final = 384


@contextmanager
def kafka_cluster(
    record: RunRecord,
    brokers: int,
    *,
    keystore: Path | None = None,
    host: str = "127.0.0.1",
    namespace: str | None = None,
    machine: Machine | None = None,
) -> Iterator[list[KafkaServer]]:
    """Start so many brokers, and end them with the context; all answer when it begins.

    What Kafka keeps for itself (how far consumers have read) has a replica on each broker, and may be written while one
    of three is away.

    Args:
        record: of the run; their logs lie in its directory.
        brokers: how many; one is a cluster too.
        keystore: PEM file for listeners of TLS beside the plain ones.
        host: address of their listeners.
        namespace: in which they stand; None: this host's own.
        machine: a computer of its own for one broker alone; None: this host.

    Raises:
        ValueError: a machine for several.
    """
    alone = brokers == 1
    if machine is not None and not alone:
        raise ValueError(f"{brokers} brokers on one machine: it has a disk for one")
    servers = [
        KafkaServer(
            record,
            name="kafka" if alone else f"kafka-{node}-of-{brokers}",
            heap_mb=512 if alone else HEAP_MB,
            node=node,
            keystore=keystore,
            host=host,
            namespace=namespace,
        ).stand_on(machine)
        for node in range(1, brokers + 1)
    ]
    more = {
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.replication.factor": str(brokers),
        "share.coordinator.state.topic.replication.factor": str(brokers),
    }
    with ExitStack() as stack:
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
