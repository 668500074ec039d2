"""What outlives a run: Kafka, the Spark session, the link and its brokers; opened when first wanted, for many runs.

Why. Of a short run's processor time most is spent on starting: Java twice, Spark's session, the compilation of its
queries. None of that is measured. What is kept must not show in the next run, so each kind of state has its fence:

* Kafka: every run has topics of its own, named by a prefix, and they are deleted when it ends.
* Spark: every run has queries and a checkpoint of its own; only the session stays.
* The link: the conditions are taken off when a run ends. Sockets of dead clients may go on sending what was queued;
  a link on which they have not fallen silent is opened anew.
* The broker: mosquitto starts in a tenth of a second, so each run has a fresh one. RabbitMQ takes seconds and is kept;
  the queues of a run are deleted when it ends. With TLS each run has keys, and so a broker, of its own; those of
  gateways at the edge, and of several that share the vehicles, are always the run's own.

Gateways, capture and vehicles belong to a run and are never kept.

A testbed of one run (`ivsim run`) is the same object with nothing to keep: there is one way to run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final, Self

from gateways.protocols import PROTOCOLS
from ivsim.options import RunOptions, own_workers
from ivsim.runs import processes
from ivsim.runs.endpoints import EDGE_PORT, KafkaAddress, login_of
from ivsim.runs.memory import RUNNER, SPARK
from ivsim.runs.noted_link import noted_link
from ivsim.runs.plan import RunPlan
from ivsim.runs.platforms import PLATFORMS, OpenPlatform
from ivsim.runs.target_credentials import left_on_target, target_credentials
from ivsim.runs.twin_session import TwinSession
from ivsim.target import Target, parse
from ivsim.testbed.credentials import PLAIN, Credentials, make_credentials, make_shared_keys
from ivsim.testbed.entrance import Entrance
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics, delete_topics, probe
from ivsim.testbed.kafka_cluster import bootstrap_of, kafka_cluster
from ivsim.testbed.kafka_listener import PLAINTEXT
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.relay_server import RelayServer
from ivsim.testbed.server import Broker, Server
from ivsim.testbed.servers import KAFKA, SERVERS
from ivsim.testbed.spark_cluster import SparkCluster
from ivsim.testbed.target_cleanup import Client, leave_as_found
from ivsim.testbed.target_server import TargetServer
from ivsim.told import say, say_error
from ivsim.topologies import TOPOLOGIES
from schemas.java import Jit
from schemas.topics import CLOUD_ADDRESS, KafkaTopics, broker_address, gateway_address, kafka_address
from simulator.links import Condition, Link, choose, tcp_stack, wiring
from simulator.links.plan import shards_for
from simulator.links.silence import silent
from twin.new_topics import Copies

SILENCE_S: Final = 2.0


class SharedParts:
    """Kafka, Spark, link and kept brokers; a context manager that closes them in reverse.

    Args:
        record: notes them; of the one run, or of the testbed.
        keep: whether runs follow each other; else everything is the one run's own.
    """

    def __init__(self, record: RunRecord, *, keep: bool) -> None:
        self._record, self.keep = record, keep
        self._stack = ExitStack()
        # by name, which says how clients meet them, and how many they are
        self._kafka: dict[str, list[KafkaServer]] = {}
        self._platforms: dict[str, OpenPlatform] = {}
        self._kafka_stack = ExitStack()
        self._spark: SparkCluster | None = None
        self._spark_stack = ExitStack()
        self._link: _OpenLink | None = None
        self.twin = TwinSession(record, record.directory / "spark" if keep else None)
        self._chosen: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._stack.callback(self.close_link)
        self._stack.callback(self._kafka_stack.close)
        self._stack.callback(self._spark_stack.close)
        self._stack.callback(self.twin.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kafka(self, plan: RunPlan, stack: ExitStack, servers: dict[str, Server]) -> KafkaAddress:
        """Return a Kafka that answers, with topics for this run; a kept one that has died is started again."""
        named = plan.options.kafka
        if named is not None:
            login = login_of(plan.options)
            probe(named, login=login)
            address = KafkaAddress(
                named, KafkaTopics(f"{plan.options.kafka_topic_prefix}{plan.run_id}."), login
            )
        else:
            relayed = kafka_relays(plan)
            options = plan.options
            cluster = self.own_kafka(
                options.kafka_security,
                options.kafka_brokers,
                tuple(relayed.values()),
                processes.jit_of(options),
            )
            servers |= {server.process.name: server for server in cluster}
            prefix = f"ivsim.{plan.run_id}." if self.keep else ""
            behind = {gateway: cluster[0].behind[address] for gateway, address in relayed.items()}
            address = KafkaAddress(bootstrap_of(cluster), KafkaTopics(prefix), cluster[0].login, behind)
        # Topics of this run alone on a broker that outlives it go with it, unless they are to stay.
        if address.topics.prefix and not plan.options.keep_topics:
            if named is not None:
                self._record.topics(address.bootstrap, address.topics.prefix, address.login)
            stack.callback(leave_kafka_as_found, address)
        copies = Copies(plan.options.kafka_replication, plan.options.kafka_min_insync)
        create_topics(
            address.bootstrap,
            address.topics,
            partitions=plan.options.kafka_partitions,
            copies=copies,
            login=address.login,
            synced=plan.options.platform_durability == "synced",
        )
        if plan.options.keep_topics:
            stack.callback(_say_kept, address)
        return address

    def platform(self, plan: RunPlan, stack: ExitStack, servers: dict[str, Server]) -> KafkaAddress:
        """Return the platform of `--topology ingest`, with topics for this run; a kept one that has died is started again."""
        options = plan.options
        if options.platform == KAFKA:
            return self.kafka(plan, stack, servers)
        if options.platform not in self._platforms:
            made = PLATFORMS[options.platform](self._record)
            self._kafka_stack.enter_context(made.server)
            self._platforms[options.platform] = made
        platform = self._platforms[options.platform]
        if not platform.server.process.running():
            platform.server.restart()
        servers[platform.server.process.name] = platform.server
        topics = KafkaTopics(f"ivsim.{plan.run_id}." if self.keep else "")
        platform.make_topics(topics, options.kafka_partitions, synced=options.platform_durability == "synced")
        if self.keep:
            stack.callback(platform.remove_topics, topics, options.kafka_partitions)
        return KafkaAddress(platform.bootstrap, topics)

    def own_kafka(
        self,
        security: str = PLAINTEXT,
        brokers: int = 1,
        relayed: tuple[str, ...] = (),
        jit: Jit = "quick",
    ) -> list[KafkaServer]:
        """Return the testbed's own brokers that meet their clients so, started or started again.

        Args:
            security: of all their listeners.
            brokers: how many.
            relayed: addresses beyond a link at which clients find one that is alone, too.
            jit: how far their Java compiles.
        """
        name = "-".join(
            [
                KAFKA,
                *([security] if security != PLAINTEXT else []),
                *([f"of-{brokers}"] if brokers > 1 else []),
                *([f"edge-{len(relayed)}"] if relayed else []),
                *([jit] if jit != "quick" else []),
            ]
        )
        if name not in self._kafka:
            cluster = kafka_cluster(
                self._record, brokers, name=name, security=security, relayed=relayed, jit=jit
            )
            self._kafka[name] = self._kafka_stack.enter_context(cluster)
        for server in self._kafka[name]:
            if not server.process.running():
                server.restart()
        return self._kafka[name]

    def up(self) -> frozenset[str]:
        """Return the names of the parts that are up, as `ivsim.runs.memory` has them."""
        found = {RUNNER} if self.keep else set()  # it has grown with the runs before
        if self._kafka:
            found.add(KAFKA)
        found |= self._platforms.keys()
        if self.twin.running():
            found.add(SPARK)
        if self._link is not None:
            found |= {self._link.link.name, *self._link.kept}
        return frozenset(found)

    def relays(self, kafka: KafkaAddress, record: RunRecord, stack: ExitStack) -> dict[str, Server]:
        """Return what leads gateways at the edge to Kafka from the cloud's end of the link; `stack` closes it."""
        assert self._link is not None
        found: dict[str, Server] = {}
        for gateway, behind in kafka.behind.items():
            host, _, port = behind.rpartition(":")
            relay = RelayServer(
                record,
                f"uplink-{gateway}",
                namespace=self._link.link.cloud_namespace,
                host=kafka_address(gateway),
                port=EDGE_PORT,
                target=(host, int(port)),
            )
            found[f"uplink-{gateway}"] = stack.enter_context(relay)
        return found

    def entrances(
        self, host: str | None, brokers: Mapping[str, Broker], record: RunRecord, stack: ExitStack
    ) -> dict[str, Entrance]:
        """Return by kind of broker where vehicles of other machines find it at `host`; None asks for no such way."""
        assert self._link is not None
        found: dict[str, Entrance] = {}
        if host is None:
            return found
        for kind, broker in brokers.items():
            entrance = Entrance(
                record,
                f"entrance-{kind}",
                host=host,
                namespace=self._link.link.cloud_namespace,
                target=(broker.host, broker.port),
            )
            found[kind] = stack.enter_context(entrance)
        return found

    def open_twin(self, plan: RunPlan, kafka: KafkaAddress, stack: ExitStack) -> None:
        """Let Spark begin to serve the run; `twin.wait_ready` returns once it does."""
        # A session that lives on writes its state some seconds after the run too: never into the run's directory.
        scratch = self._record.directory / "checkpoints" / plan.run_id if self.keep else plan.directory.work
        if self.keep:
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        stack.callback(self.twin.leave)
        options = plan.options
        config = processes.twin_config(plan, kafka, str(scratch / "checkpoint"))
        if (workers := own_workers(options.spark_master)) is not None:
            cluster = self.spark_cluster(workers)
            config |= {"spark_master": cluster.url, "spark_conf": {**cluster.conf, **config["spark_conf"]}}
            config |= processes.shared_checkpoint(f"file://{cluster.shared}", plan.run_id)
        if options.spark_checkpoint is not None:
            config |= processes.shared_checkpoint(options.spark_checkpoint, plan.run_id)
        self.twin.open(config, plan.directory.work / "twin.json")

    def spark_cluster(self, workers: int) -> SparkCluster:
        """Return the testbed's own cluster, of so many workers: one at a time, and started anew when a part of it has died."""
        if self._spark is not None and not (len(self._spark.workers) == workers and self._spark.running()):
            self.twin.stop()
            self._spark_stack.close()
            self._spark = None
        if self._spark is None:
            self._spark = self._spark_stack.enter_context(SparkCluster(self._record, workers))
        return self._spark

    def link(self, options: RunOptions) -> Link:
        """Return an open link of the wanted kind for so many vehicles, on which nobody speaks."""
        name = self._chosen.get(options.link) or choose(options.link)
        self._chosen[options.link] = name
        if self._link is not None and not (self._link.serves(name, options) and self._link.silent()):
            self.close_link()
        if self._link is None:
            self._link = _OpenLink.open(name, self._record, options)
        return self._link.link

    def brokers(
        self, plan: RunPlan, record: RunRecord, stack: ExitStack
    ) -> tuple[dict[str, Broker], Credentials]:
        """Return the brokers of the run's protocols, and what their clients show; `stack` closes the run's own.

        They are known by their kind; where a kind has several, at the edge or behind the link, by kind and number.
        """
        if plan.options.target is not None:
            return self._target(plan.options, record, stack)
        security, keys = plan.options.security, plan.directory.work / "keys"
        credentials = PLAIN
        if security in ("oscore", "dtls-psk"):
            credentials = make_shared_keys(keys, plan.options.vehicles, security)
        elif security != "plain":
            credentials = make_credentials(
                keys, plan.options.vehicles, security, further=broker_addresses(plan)
            )
        kinds = dict.fromkeys(part.protocol.broker for part in plan.options.parts if part.protocol.broker)
        if broker_addresses(plan):
            return self._several_brokers(plan, kinds, credentials, record, stack), credentials
        return {kind: self._broker(kind, credentials, record, stack) for kind in kinds}, credentials

    def _several_brokers(
        self,
        plan: RunPlan,
        kinds: Iterable[str],
        credentials: Credentials,
        record: RunRecord,
        stack: ExitStack,
    ) -> dict[str, Broker]:
        """Return a broker at each of `broker_addresses`, by its name; they are the run's own."""
        assert self._link is not None
        link = self._link.link
        found: dict[str, Broker] = {}
        for kind in kinds:
            for number, address in enumerate(broker_addresses(plan)):
                server: Broker = SERVERS[kind].open(
                    record,
                    host=address,
                    namespace=link.vehicles_namespace if plan.topology.edge else link.cloud_namespace,
                    security=credentials.security,
                    name=f"{kind}-{number}",
                )
                found[f"{kind}-{number}"] = stack.enter_context(server)
        return found

    def _target(
        self, options: RunOptions, record: RunRecord, stack: ExitStack
    ) -> tuple[dict[str, Broker], Credentials]:
        """Return the relay to a peer that is there, in the place of the run's own, and how clients log in."""
        assert self._link is not None
        assert options.target is not None
        target = parse(options.target)
        protocol = PROTOCOLS[target.protocol]
        credentials = target_credentials(options, target)
        stack.callback(
            _leave_target_as_found, target, left_on_target(options, target, record.run_id, credentials)
        )
        server = TargetServer(record, target, host=CLOUD_ADDRESS, namespace=self._link.link.cloud_namespace)
        return {protocol.broker or protocol.name: stack.enter_context(server)}, credentials

    def _broker(self, kind: str, credentials: Credentials, record: RunRecord, stack: ExitStack) -> Broker:
        assert self._link is not None
        if self.keep and SERVERS[kind].forget is not None and credentials is PLAIN:
            return self._link.broker(kind, self._record)
        server: Broker = SERVERS[kind].open(
            record,
            host=CLOUD_ADDRESS,
            namespace=self._link.link.cloud_namespace,
            security=credentials.security,
        )
        return stack.enter_context(server)

    def clear(self, plan: RunPlan) -> None:
        """Take off the link's conditions, and from a kept broker what the run has left there; or close both."""
        if not self.keep or self._link is None:
            return
        try:
            self._link.clear(plan.options)
        except Exception:  # noqa: BLE001 - whatever a part that has died does: the next run gets a new one
            self.close_link()

    def close_link(self) -> None:
        """Close the link and the brokers that stand on it; the next run opens them anew."""
        link, self._link = self._link, None
        if link is not None:
            link.close()


def edge_gateways(plan: RunPlan) -> range:
    """Return the gateways of a run that stand at the edge; none where they stand behind the link."""
    return range(plan.options.gateways if plan.topology.edge else 0)


def broker_addresses(plan: RunPlan) -> list[str]:
    """Return where the brokers of a kind are, beside each gateway at the edge or several behind the link; else none.

    One that is alone is at CLOUD_ADDRESS, where a kept one may stand beside these.
    """
    if plan.topology.edge:
        return [gateway_address(gateway) for gateway in edge_gateways(plan)]
    several = plan.options.brokers if plan.options.brokers > 1 else 0
    return [broker_address(broker) for broker in range(several)]


def kafka_relays(plan: RunPlan) -> dict[int, str]:
    """Return the address at the cloud's end of the link at which each gateway at the edge finds Kafka."""
    return {gateway: f"{kafka_address(gateway)}:{EDGE_PORT}" for gateway in edge_gateways(plan)}


def _say_kept(kafka: KafkaAddress) -> None:
    login = f" --kafka-login {kafka.login}" if kafka.login else ""
    serve = f"ivsim twin serve --kafka {kafka.bootstrap}{login} --prefix {kafka.topics.prefix}"
    say("topics", f"Kafka keeps the run's topics: {serve}")


def leave_kafka_as_found(kafka: KafkaAddress) -> None:
    """Take the run's topics off a broker that outlives it, and name those that stay."""
    for name, reason in delete_topics(kafka.bootstrap, kafka.topics.prefix, kafka.login).items():
        say_error(f"Kafka {kafka.bootstrap} keeps topic {name}: {reason}")


def _leave_target_as_found(target: Target, clients: list[Client]) -> None:
    for line in leave_as_found(target, clients):
        say_error(line)


class _OpenLink:
    """An open link, and the kept brokers in its namespace, which cannot outlive it."""

    def __init__(self, link: Link, options: RunOptions, stack: ExitStack) -> None:
        self.link, self._links, self._tcp, self._stack = link, options.links, options.tcp, stack
        self._brokers: dict[str, Broker] = {}

    @classmethod
    def open(cls, name: str, record: RunRecord, options: RunOptions) -> _OpenLink:
        with ExitStack() as stack:
            link = stack.enter_context(
                noted_link(record, name, len(options.links), first=options.links.start)
            )
            for gateway in range(options.gateways) if TOPOLOGIES[options.topology].edge else ():
                wiring.route_to(link.vehicles_namespace, kafka_address(gateway), gateway_address(gateway))
            tcp_stack.use(link, options.tcp)  # of the routes that there are
            return cls(link, options, stack.pop_all())

    def serves(self, name: str, options: RunOptions) -> bool:
        """Say whether a run could as well have opened this one: same kind and TCP, room, and as many devices.

        A kept broker's listening socket keeps the congestion control that it was opened with.
        """
        return (
            self.link.name == name
            and self._tcp == options.tcp
            and options.links.start == self._links.start
            and len(options.links) <= len(self._links)
            and shards_for(len(options.links)) == shards_for(len(self._links))
        )

    def silent(self) -> bool:
        return silent(self.link.vehicles_namespace, SILENCE_S)

    @property
    def kept(self) -> frozenset[str]:
        """Return the kinds of the brokers that are kept."""
        return frozenset(self._brokers)

    def broker(self, kind: str, record: RunRecord) -> Broker:
        """Return the kept broker of that kind, started or started again."""
        if kind not in self._brokers:
            server: Broker = SERVERS[kind].open(
                record, host=CLOUD_ADDRESS, namespace=self.link.cloud_namespace
            )
            self._brokers[kind] = self._stack.enter_context(server)
        elif not self._brokers[kind].process.running():
            self._brokers[kind].restart()
        return self._brokers[kind]

    def clear(self, options: RunOptions) -> None:
        plain = (Condition(), Condition())
        self.link.update(dict.fromkeys(options.links, plain))
        queues = processes.queues(options)
        for kind, broker in self._brokers.items():
            if (forget := SERVERS[kind].forget) is not None:
                forget(broker, queues)

    def close(self) -> None:
        self._stack.close()
