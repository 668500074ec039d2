"""Every real part of a run, opened in order and closed in reverse by one stack; knows nothing of results."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateways.protocols import PROTOCOLS
from ivsim.display import Display
from ivsim.options import RunOptions
from ivsim.run_directory import RunDirectory
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer, create_topics, delete_topics, probe
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.paths import installed_jars
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import OPEN, Security
from ivsim.watch import Watch
from schemas.topics import CLOUD_ADDRESS, KafkaTopics
from simulator.links import Link, open_link
from simulator.scenario import Scenario

BROKERS = {"mosquitto": MosquittoServer, "rabbitmq": RabbitmqServer}
COAP_PORT = 5683
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
    link: Link | None = None
    broker: MosquittoServer | RabbitmqServer | None = None
    gateways: list[Child] = field(default_factory=list)
    twin: Child | None = None
    pacer: Child | None = None
    capture: Child | None = None
    watch: Watch | None = None
    servers: list[OwnedProcess] = field(default_factory=list)

    @property
    def children(self) -> list[Child]:
        """Return our own processes that are running, in the order in which they were opened."""
        optional = (self.twin, *self.gateways, self.capture, self.pacer)
        return [child for child in optional if child is not None]

    def check(self) -> None:
        """Raise ProcessDied when one of the run's processes has ended on its own."""
        for process in (*self.servers, *self.children):
            process.check()


def scenario_of(options: RunOptions) -> Scenario:
    """Return the fleet that the options ask for."""
    return Scenario(
        vehicles=options.vehicles,
        interval_s=options.interval_s,
        duration_s=options.duration_s,
        format=options.format,
        seed=options.seed,
    )


def open_parts(parts: Parts, display: Display) -> None:
    """Open everything up to vehicles that are connected and waiting for the start.

    Slow starters come first, so that they start while the others are made.
    """
    options = parts.options
    if options.topology == "gateway":
        display.phase("starting Kafka")
        _open_kafka(parts)
        display.phase("starting Spark, and the link")
        parts.twin = _child(parts, "twin", ["twin"], twin_config(parts))
    _open_link(parts)
    display.phase("starting broker and gateway")
    _open_broker(parts, OPEN)
    if options.topology == "gateway":
        _open_gateways(parts)
    parts.capture = _open_capture(parts)
    if parts.twin is not None:
        display.phase("waiting for Spark")
        parts.twin.wait_for("ready", READY_S)
        parts.watch = parts.stack.enter_context(Watch(parts.bootstrap, parts.topics))
    display.phase(f"connecting {options.vehicles} vehicles")
    parts.pacer = _child(
        parts, "pacer", ["simulator.pacer"], _pacer_config(parts), inside=_link(parts).vehicles_namespace
    )
    parts.pacer.wait_for("ready", READY_S)


def _open_kafka(parts: Parts) -> None:
    named = parts.options.kafka
    if named is None:
        server = parts.stack.enter_context(KafkaServer(parts.record))
        parts.servers.append(server.process)
        parts.bootstrap = server.bootstrap
    else:
        probe(named)
        parts.bootstrap = named
        # A broker of somebody else's: topics of this run alone, and gone with it.
        parts.topics = KafkaTopics(f"ivsim.{parts.record.run_id}.")
        parts.stack.callback(delete_topics, named, parts.topics.all())
    create_topics(parts.bootstrap, parts.topics)


def _open_link(parts: Parts) -> None:
    options, record = parts.options, parts.record
    link = open_link(options.link, record.run_id[-4:], options.vehicles)
    # Noted before they are made: a kill in between leaves a note of nothing, not a thing without a note.
    record.namespace(link.vehicles_namespace)
    record.namespace(link.cloud_namespace)
    parts.link = parts.stack.enter_context(link)


def _link(parts: Parts) -> Link:
    assert parts.link is not None
    return parts.link


def _open_broker(parts: Parts, security: Security) -> None:
    kind = PROTOCOLS[parts.options.protocol].broker
    if kind is None:
        return
    server = BROKERS[kind](
        parts.record, host=CLOUD_ADDRESS, namespace=_link(parts).cloud_namespace, security=security
    )
    parts.broker = parts.stack.enter_context(server)
    parts.servers.append(server.process)


def broker_port(parts: Parts) -> int:
    """Return the port to which vehicles send."""
    return COAP_PORT if parts.broker is None else parts.broker.port


def _open_gateways(parts: Parts) -> None:
    for index in range(parts.options.gateways):
        name = f"gateway-{index}" if parts.options.gateways > 1 else "gateway"
        arguments = ["gateways", parts.options.protocol, "--config"]
        parts.gateways.append(_child(parts, name, arguments, _gateway_config(parts, name, index)))
    for gateway in parts.gateways:
        gateway.wait_for("ready", READY_S)


def _open_capture(parts: Parts) -> Child:
    link = _link(parts)
    config = {"device": link.vehicles_device, "run_dir": str(parts.directory.path)}
    child = _child(parts, "capture", ["simulator.links.capture"], config, inside=link.vehicles_namespace)
    child.wait_for("ready", READY_S)
    return child


def _child(
    parts: Parts, name: str, arguments: list[str], config: dict[str, Any], *, inside: str | None = None
) -> Child:
    path = parts.directory.work / f"{name}.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    child = Child(name, [*arguments, str(path)], parts.record, namespace=inside)
    parts.stack.callback(child.stop)
    return child


def twin_config(parts: Parts) -> dict[str, Any]:
    """Return what the twin process, or the ledger alone, is told."""
    return {
        "run_dir": str(parts.directory.path),
        "bootstrap": parts.bootstrap,
        "topics_prefix": parts.topics.prefix,
        "trigger": parts.options.trigger,
        "topology": parts.options.topology,
        "checkpoint_dir": str(parts.directory.work / "checkpoint"),
        "jars_dir": str(installed_jars("spark")),
        "loss_timeout_s": parts.options.loss_timeout_s,
    }


def _gateway_config(parts: Parts, name: str, index: int) -> dict[str, Any]:
    options = parts.options
    log = parts.directory.path / ("received.events" if options.gateways == 1 else f"received-{index}.events")
    return {
        "bootstrap": parts.bootstrap,
        "host": CLOUD_ADDRESS,
        "port": broker_port(parts),
        "mode": options.mode,
        "format": options.format,
        "topics_prefix": parts.topics.prefix,
        "namespace": _link(parts).cloud_namespace,
        "name": name,
        "shared": options.gateways > 1,
        "early_ack": options.early_ack,
        "receive_log": str(log),
        "faults": {"drop": options.gateway_faults},
    }


def _pacer_config(parts: Parts) -> dict[str, Any]:
    options = parts.options
    return {
        "protocol": options.protocol,
        "mode": options.mode,
        "topology": options.topology,
        "host": CLOUD_ADDRESS,
        "port": broker_port(parts),
        "scenario": scenario_of(options).model_dump(),
        "events_path": str(parts.directory.emission_events),
        "drain_s": options.loss_timeout_s,
        "bind_addresses": True,
        "outbox_limit": options.outbox_limit,
        "outbox_policy": options.outbox_policy,
    }


def note_environment(record: RunRecord) -> None:
    """Mark what this process starts by itself (the router) as this run's, for `ivsim doctor --clean`."""
    os.environ.update(record.environment)


def receive_logs(directory: Path) -> list[Path]:
    """Return the gateways' receive logs in a run directory."""
    return sorted(directory.glob("received*.events"))
