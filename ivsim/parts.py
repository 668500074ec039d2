"""Every real part of a run, opened in order and closed in reverse by one stack; knows nothing of results."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gateways.protocols import PROTOCOLS
from ivsim import child_configs as configs
from ivsim.credentials import PLAIN, Credentials, make_credentials
from ivsim.display import Display
from ivsim.options import RunOptions
from ivsim.run_directory import RunDirectory, tag_of
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer, create_topics, delete_topics, probe
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from ivsim.watch import Watch
from schemas.topics import CLOUD_ADDRESS, KafkaTopics
from simulator.links import Link, open_link

BROKERS = {"mosquitto": MosquittoServer, "rabbitmq": RabbitmqServer}
READY_S = 90.0


@dataclass
class Parts:
    """What is open; each field is set once its part is ready."""

    options: RunOptions
    directory: RunDirectory
    record: RunRecord
    stack: ExitStack
    bootstrap: str = ""
    topics: KafkaTopics = field(default_factory=KafkaTopics)
    credentials: Credentials = PLAIN
    link: Link | None = None
    broker: MosquittoServer | RabbitmqServer | None = None
    gateways: list[Child] = field(default_factory=list)
    twin: Child | None = None
    pacer: Child | None = None
    capture: Child | None = None
    page: Child | None = None
    watch: Watch | None = None
    kafka: KafkaServer | None = None
    down: set[str] = field(default_factory=set)

    @property
    def cloud_namespace(self) -> str:
        assert self.link is not None
        return self.link.cloud_namespace

    @property
    def children(self) -> list[Child]:
        """Return our own processes that are running, in the order in which they were opened."""
        optional = (self.twin, self.page, *self.gateways, self.capture, self.pacer)
        return [child for child in optional if child is not None]

    def check(self) -> None:
        """Raise ProcessDied when one of the run's processes has ended that is not `down` on purpose."""
        servers = [server.process for server in (self.kafka, self.broker) if server is not None]
        for process in (*servers, *self.children):
            if process.name not in self.down:
                process.check()


def open_parts(parts: Parts, display: Display) -> None:
    """Open everything up to vehicles that are connected and waiting for the start.

    Slow starters come first, so that they start while the others are made.
    """
    options = parts.options
    if options.topology == "gateway":
        display.phase("starting Kafka")
        _open_kafka(parts)
        display.phase("starting Spark, and the link")
        parts.twin = start_child(parts, "twin", ["twin"], configs.twin_config(parts))
    _open_link(parts)
    display.phase("starting broker and gateway")
    _open_broker(parts)
    _open_gateways(parts)
    parts.capture = _open_capture(parts)
    if parts.twin is not None:
        display.phase("waiting for Spark")
        parts.twin.wait_for("ready", READY_S)
        parts.watch = parts.stack.enter_context(Watch(parts.bootstrap, parts.topics))
    if options.page:
        _open_page(parts, display)
    display.phase(f"connecting {options.vehicles} vehicles")
    parts.pacer = start_child(
        parts,
        "pacer",
        ["simulator.pacer"],
        configs.pacer_config(parts),
        inside=_link(parts).vehicles_namespace,
    )
    parts.pacer.wait_for("ready", READY_S)


def _open_kafka(parts: Parts) -> None:
    named = parts.options.kafka
    if named is None:
        server = parts.stack.enter_context(KafkaServer(parts.record))
        parts.kafka = server
        parts.bootstrap = server.bootstrap
    else:
        probe(named)
        parts.bootstrap = named
        # A broker of somebody else's: topics of this run alone, and gone with it.
        parts.topics = KafkaTopics(f"ivsim.{parts.record.run_id}.")
        parts.stack.callback(delete_topics, named, parts.topics.all())
    create_topics(parts.bootstrap, parts.topics)


def _open_page(parts: Parts, display: Display) -> None:
    parts.page = start_child(parts, "page", ["twin.service"], configs.page_config(parts))
    display.note(f"live page: {parts.page.wait_for('ready', READY_S)['url']}")


def _open_link(parts: Parts) -> None:
    options, record = parts.options, parts.record
    link = open_link(options.link, tag_of(record.run_id), options.vehicles)
    # Noted before they are made: a kill in between leaves a note of nothing, not a thing without a note.
    for namespace in link.namespaces:
        record.namespace(namespace)
    parts.link = parts.stack.enter_context(link)


def _link(parts: Parts) -> Link:
    assert parts.link is not None
    return parts.link


def _open_broker(parts: Parts) -> None:
    kind = PROTOCOLS[parts.options.protocol].broker
    if kind is None:
        return
    if parts.options.security == "tls":
        parts.credentials = make_credentials(parts.directory.work / "keys", parts.options.vehicles)
    server = BROKERS[kind](
        parts.record, host=CLOUD_ADDRESS, namespace=parts.cloud_namespace, security=parts.credentials.security
    )
    parts.broker = parts.stack.enter_context(server)


def _open_gateways(parts: Parts) -> None:
    """Start the gateways, or what echoes the messages where no broker does."""
    protocol = PROTOCOLS[parts.options.protocol]
    if parts.options.topology == "echo":
        if protocol.broker is None:
            arguments = ["gateways", f"{protocol.name}-echo", "--config"]
            parts.gateways.append(start_child(parts, "echo", arguments, configs.echo_config(parts)))
    else:
        for index in range(parts.options.gateways):
            arguments = ["gateways", protocol.name, "--config"]
            config = configs.gateway_config(parts, index)
            parts.gateways.append(start_child(parts, config["name"], arguments, config))
    for gateway in parts.gateways:
        gateway.wait_for("ready", READY_S)


def _open_capture(parts: Parts) -> Child:
    link = _link(parts)
    config = configs.capture_config(parts, link.vehicles_device)
    child = start_child(parts, "capture", ["simulator.links.capture"], config, inside=link.vehicles_namespace)
    child.wait_for("ready", READY_S)
    return child


def start_child(
    parts: Parts, name: str, arguments: list[str], config: dict[str, Any], *, inside: str | None = None
) -> Child:
    """Start one of our own processes with its configuration in a file; the run's stack stops it."""
    path = parts.directory.work / f"{name}.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    child = Child(name, [*arguments, str(path)], parts.record, namespace=inside)
    parts.stack.callback(child.stop)
    return child


def note_environment(record: RunRecord) -> None:
    """Mark what this process starts by itself (the router) as this run's, for `ivsim doctor --clean`."""
    os.environ.update(record.environment)
