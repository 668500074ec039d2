"""What each child process of a run is told, and how it is started, out of the run's plan; it starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateways.batching.policies import POLICIES
from gateways.protocols import PROTOCOLS
from gateways.protocols.base import SharedKeys, Tls
from ivsim.mix import FleetPart
from ivsim.options import RunOptions
from ivsim.runs.children import ChildSpec
from ivsim.runs.directory import tag_of
from ivsim.runs.endpoints import Endpoints, KafkaAddress
from ivsim.runs.plan import RunPlan
from ivsim.testbed.credentials import GATEWAY
from ivsim.testbed.paths import installed_jars
from ivsim.topologies import TOPOLOGIES
from schemas.topics import CLOUD_ADDRESS, vehicle_id
from simulator.capture.process import CaptureConfig
from simulator.links.proof.prober import PROBE_PORT
from simulator.scenario import Scenario, Stage
from simulator.sender_config import CONNECT_WAIT_S, SenderConfig

GROUP = "ivsim"
SENDER = "sender"
MESSAGES_PER_S_ATTRIBUTED = 3_000
MESSAGES_PER_S_UNDER_LOAD = 2_000
# The twin's first real-time batch lasts 300 s, of which the start of a run takes some.
BOUNDARY_AFTER_S = 240.0


def scenario_of(options: RunOptions) -> Scenario:
    """Return the fleet that the options ask for."""
    return Scenario(
        vehicles=options.vehicles,
        interval_s=options.interval_s,
        duration_s=options.duration_s,
        format=options.format,
        seed=options.seed,
        message_bytes=options.message_bytes,
        stages=tuple(
            Stage(duration_s=length_s, begin_vehicles=begin, end_vehicles=end)
            for length_s, begin, end in options.stages
        ),
    )


def page(plan: RunPlan, endpoints: Endpoints) -> ChildSpec:
    """Return how the twin service of the run is started."""
    return ChildSpec("page", ("twin.service",), page_config(plan, endpoints))


def gateways(plan: RunPlan, endpoints: Endpoints) -> list[ChildSpec]:
    """Return how the gateways are started, or what echoes the messages where no broker does."""
    options = plan.options
    if plan.topology.bridged:
        every = enumerate(part for part in options.parts for _ in range(options.gateways))
        return [_gateway(plan, endpoints, part, index) for index, part in every]
    (part,) = options.parts
    if part.protocol.broker is None and plan.topology.echoed:
        config = echo_config(part.mode.name, endpoints.ports[part.protocol.name], endpoints.cloud_namespace)
        return [ChildSpec("echo", ("gateways", f"{part.protocol.name}-echo", "--config"), config)]
    return []


def _gateway(plan: RunPlan, endpoints: Endpoints, part: FleetPart, index: int) -> ChildSpec:
    config = gateway_config(plan, endpoints, part, index)
    return ChildSpec(gateway_name(index), ("gateways", part.protocol.name, "--config"), config)


def queues(options: RunOptions) -> list[str]:
    """Return the names under which the gateways of a run are known to a broker, and may have left messages."""
    return [GROUP, *(gateway_name(index) for index in range(options.gateways * len(options.parts)))]


def client_prefix(options: RunOptions, run_id: str) -> str:
    """Return what goes before the names of a run's clients: on a broker that is there, they are nobody else's."""
    return "" if options.target is None else f"ivsim-{tag_of(run_id)}-"


def gateway_name(index: int) -> str:
    return f"gateway-{index}"


def capture(plan: RunPlan, endpoints: Endpoints) -> ChildSpec:
    """Return how the capture at the vehicles' end is started."""
    config = capture_config(
        device=endpoints.vehicles_device,
        directory=plan.directory.path,
        echo=plan.topology.echoed,
        messages=attributed(plan.options),
        probe_ports=[PROBE_PORT],
        pcap=plan.directory.pcap if plan.options.pcap else None,
    )
    return ChildSpec("capture", ("simulator.capture.process",), config, endpoints.vehicles_namespace)


def senders(plan: RunPlan, endpoints: Endpoints) -> list[ChildSpec]:
    """Return how the senders are started; each has its share of the vehicles, and a log of its own."""
    return [_sender(plan, endpoints, index) for index in range(plan.shards)]


def _sender(plan: RunPlan, endpoints: Endpoints, index: int) -> ChildSpec:
    part, vehicles = plan.senders[index].part, plan.senders[index].vehicles
    alone = plan.shards == 1
    own = {vehicle_id(vehicle) for vehicle in vehicles}
    config = sender_config(
        plan.options,
        protocol=part.protocol.name,
        mode=part.mode.name,
        port=endpoints.ports[part.protocol.name],
        events_path=plan.directory.emission_log(index, plan.shards),
        vehicles=None if alone else vehicles,
        client_prefix=client_prefix(plan.options, plan.run_id),
        tls=endpoints.credentials.tls(),
        certificates=endpoints.credentials.certificates,
        keys=endpoints.credentials.keys,
        passwords={one: word for one, word in endpoints.credentials.passwords.items() if one in own},
        usernames={one: name for one, name in endpoints.credentials.usernames.items() if one in own},
    )
    name = SENDER if alone else f"{SENDER}-{index}"
    return ChildSpec(name, ("simulator.sender",), config, endpoints.vehicles_namespace)


def twin_config(plan: RunPlan, kafka: KafkaAddress, checkpoint: Path) -> dict[str, Any]:
    """Return what the twin process, or the ledger alone, is told; `checkpoint` is where Spark keeps its state."""
    options = plan.options
    return {
        **session_config(options),
        "run_dir": str(plan.directory.path),
        "bootstrap": kafka.bootstrap,
        "kafka_login": kafka.login,
        "topics_prefix": kafka.topics.prefix,
        "trigger": options.trigger,
        # A run that ends before the first batch does meets no boundary, and need not wait for its rehearsal.
        "rehearse": options.duration_s + options.loss_timeout_s > BOUNDARY_AFTER_S,
        "topology": plan.topology.accounting,
        "checkpoint_dir": str(checkpoint),
        "topic_partitions": options.kafka_partitions,
        "topic_replication": options.kafka_replication,
        "topic_min_insync": options.kafka_min_insync,
        "loss_timeout_s": options.loss_timeout_s,
        "future_tolerance_s": options.future_tolerance_s,
    }


def session_config(options: RunOptions) -> dict[str, Any]:
    """Return what of it holds for the whole Spark session, which may serve many runs."""
    partitions = options.kafka_partitions
    # Tasks of the twin's query, as many again while a batch follows another, and the live figures': all have a slot.
    slots = max(16, 2 * (2 * partitions + 1) + partitions)
    return {
        "spark_master": options.spark_master or f"local[{slots}]",
        "shuffle_partitions": partitions,
        # Compiling fully costs CPU at the start and pays only for a pipeline under load.
        "jit": "full" if options.vehicles / options.interval_s > MESSAGES_PER_S_UNDER_LOAD else "quick",
        "jars_dir": str(installed_jars("spark")),
    }


def page_config(plan: RunPlan, endpoints: Endpoints) -> dict[str, Any]:
    """Return what the twin service of the run is told; it listens on loopback alone."""
    return {
        "bootstrap": endpoints.kafka.bootstrap,
        "kafka_login": endpoints.kafka.login,
        "topics_prefix": endpoints.kafka.topics.prefix,
        "port": plan.options.page_port,
        "title": f"ivsim run {plan.run_id}",
    }


def gateway_config(plan: RunPlan, endpoints: Endpoints, part: FleetPart, index: int) -> dict[str, Any]:
    """Return what gateway `index` of the run is told, which takes in what that part of the fleet sends."""
    options, credentials = plan.options, endpoints.credentials
    return {
        "bootstrap": endpoints.kafka.bootstrap,
        "kafka_login": endpoints.kafka.login,
        "host": endpoints.host,
        "port": endpoints.ports[part.protocol.name],
        "mode": part.mode.name,
        "format": options.format,
        "topics_prefix": endpoints.kafka.topics.prefix,
        "namespace": endpoints.cloud_namespace,
        "tls": None if (tls := credentials.tls(GATEWAY)) is None else asdict(tls),
        "keys": None if credentials.keys is None else asdict(credentials.keys),
        "username": credentials.usernames.get(GATEWAY, GATEWAY) if GATEWAY in credentials.passwords else None,
        "password": credentials.passwords.get(GATEWAY),
        "name": client_prefix(options, plan.run_id) + gateway_name(index),
        "group": client_prefix(options, plan.run_id) + GROUP,
        "shared": options.gateways > 1,
        "early_ack": options.early_ack and part.mode.gateway_acknowledges,
        "batching": batching_of(options, plan.directory.decision_log(index)),
        "receive_log": str(plan.directory.path / f"received-{index}.events"),
        "faults": {"drop": options.faults.gateway, "mislabel": options.faults.twin},
    }


def batching_of(options: RunOptions, decision_log: Path) -> dict[str, Any] | None:
    """Return the batches that a gateway makes itself, None where it makes none."""
    if options.batching == "none":
        return None
    fixed = {"messages": options.batch_messages, "wait_ms": options.batch_ms}
    if POLICIES[options.batching].rule is None:
        return fixed
    return {
        **fixed,
        "policy": options.batching,
        "limit_ms": options.batch_limit_ms,
        "period_s": options.batch_period_s,
        "decision_log": str(decision_log),
    }


def echo_config(mode: str, port: int, namespace: str) -> dict[str, Any]:
    """Return what an echo server is told, which stands in for a broker where the protocol has none."""
    return {"host": CLOUD_ADDRESS, "port": port, "mode": mode, "namespace": namespace}


def sender_config(
    options: RunOptions,
    *,
    port: int,
    events_path: Path,
    protocol: str | None = None,
    mode: str | None = None,
    scenario: Scenario | None = None,
    vehicles: Sequence[int] | None = None,
    tls: Tls | None = None,
    certificates: Path | None = None,
    keys: SharedKeys | None = None,
    passwords: Mapping[str, str] | None = None,
    usernames: Mapping[str, str] | None = None,
    connect_wait_s: float = CONNECT_WAIT_S,
    client_prefix: str = "",
) -> SenderConfig:
    """Return what a sender is told, in a run and in a session of echo cells alike.

    Args:
        options: what the run, or every cell of the process, asks for.
        port: where vehicles send to, at the cloud's address.
        events_path: the emission log.
        protocol: that the process speaks, where it is another than the options'.
        mode: likewise.
        scenario: the fleet, where it is another than the options'.
        vehicles: the numbers of the process; None for the whole fleet.
        tls: what encrypted connections trust.
        certificates: directory of the vehicles' certificates, `<vehicle id>.pem`; None: they show none.
        keys: what each vehicle shares with the gateway.
        passwords: by the vehicle's name; None connects without.
        usernames: likewise, where the user's name is another.
        connect_wait_s: how long the vehicles may take to connect, behind the last one that is due.
        client_prefix: goes before every client identifier.
    """
    return SenderConfig(
        protocol=options.protocol if protocol is None else protocol,
        mode=options.mode if mode is None else mode,
        topology="echo" if TOPOLOGIES[options.topology].echoed else "gateway",
        host=CLOUD_ADDRESS,
        port=port,
        tls=tls,
        certificates=None if certificates is None else str(certificates),
        keys=keys,
        passwords=dict(passwords) if passwords else None,
        usernames=dict(usernames or {}),
        scenario=scenario_of(options) if scenario is None else scenario,
        vehicles=None if vehicles is None else list(vehicles),
        events_path=str(events_path),
        drain_s=options.loss_timeout_s,
        bind_addresses=True,
        keepalive_s=options.keepalive_s,
        outbox_limit=options.outbox_limit,
        outbox_policy=options.outbox_policy,
        connect_wait_s=connect_wait_s + connecting_s(options),
        connect_rate_per_s=options.connect_rate_per_s,
        client_prefix=client_prefix,
        coap_block_bytes=None if options.coap_block_bytes == "none" else int(options.coap_block_bytes),
    )


def connecting_s(options: RunOptions) -> float:
    """Return how long it takes until the last vehicle is due to connect; 0 without a rate."""
    return 0.0 if options.connect_rate_per_s is None else options.vehicles / options.connect_rate_per_s


def attributed(options: RunOptions) -> bool:
    """Say whether bytes are attributed to messages: that follows 40,000 frames/s, above it only the counts do."""
    return options.vehicles / options.interval_s <= MESSAGES_PER_S_ATTRIBUTED


def capture_config(
    *,
    device: str,
    directory: Path,
    echo: bool,
    messages: bool = True,
    datagram_ports: Mapping[str, Sequence[int]] | None = None,
    probe_ports: Sequence[int] = (),
    pcap: Path | None = None,
) -> CaptureConfig:
    """Return what the capture at the vehicles' end is told.

    Args:
        device: the vehicles' end of the link.
        directory: where its tables go.
        echo: whether messages come back to the vehicles.
        messages: attribute bytes to messages, too; `attributed` says whether the capture can follow.
        datagram_ports: the ports of each protocol's servers, where they are others than the protocol's own.
        probe_ports: where the link's own probes go, which belong to no vehicle.
        pcap: a file that takes every frame whole; None keeps none.
    """
    if datagram_ports is None:
        datagram_ports = {p.name: (p.port,) for p in PROTOCOLS.values() if p.port is not None}
    return CaptureConfig(
        device=device,
        run_dir=str(directory),
        echo=echo,
        datagram_ports={name: list(ports) for name, ports in datagram_ports.items()},
        probe_ports=list(probe_ports),
        messages=messages,
        pcap=None if pcap is None else str(pcap),
    )


def receive_logs(directory: Path) -> list[Path]:
    """Return the gateways' receive logs in a run directory."""
    return sorted(directory.glob("received-*.events"))
