"""What each child process of a run is told, and how it is started, out of the run's plan; it starts nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateways.batching.policies import POLICIES
from gateways.protocols import PROTOCOLS
from gateways.protocols.base import SharedKeys, Tls
from gateways.sinks import SINKS
from gateways.sinks.kinds import LINGER_MS
from ivsim.mix import FleetPart
from ivsim.options import RunOptions, history_directory
from ivsim.runs.children import ChildSpec
from ivsim.runs.directory import tag_of
from ivsim.runs.endpoints import Endpoints, KafkaAddress
from ivsim.runs.plan import RunPlan
from ivsim.runs.result import ledger_config
from ivsim.runs.shards import groups
from ivsim.target import parse
from ivsim.testbed.credentials import GATEWAY
from ivsim.testbed.java_client import client_jars, libjvm
from ivsim.testbed.paths import S3, installed_jars
from ivsim.topologies import TOPOLOGIES
from ledger.config import RunTerms
from schemas.java import Jit
from schemas.settings import as_mapping
from schemas.topics import CLOUD_ADDRESS, gateway_id, gateway_number, vehicle_id
from simulator.capture.process import CaptureConfig
from simulator.links.proof.prober import PROBE_PORT
from simulator.scenario import Scenario, Stage
from simulator.sender_config import CONNECT_WAIT_S, SenderConfig
from simulator.traces import BUNDLED
from simulator.traces.geojson import to_geojson
from twin.place import Place
from twin.service.roads import MAX_POSITIONS

GROUP = "ivsim"
SENDER = "sender"
CAPTURE = "capture"
ECHO = "echo"
CONSUMER = "consumer"
MESSAGES_PER_S_ATTRIBUTED = 3_000
MESSAGES_PER_S_UNDER_LOAD = 2_000
# Of one gateway. A record that travels alone makes requests of its own, the gateway's and Spark's (docs/batching.md).
GATHERED_ABOVE_PER_S = 100
GATHERED_MS = 100
# Within an hour, of a query that has died on a cluster: more often, the run ends with Spark's words.
REOPENINGS = 3
# The twin's first real-time batch lasts 300 s, of which the start of a run takes some.
BOUNDARY_AFTER_S = 240.0


def scenario_of(options: RunOptions, *, on_roads: bool = True) -> Scenario:
    """Return the fleet that the options ask for; what is due when is the same without roads, for which traces are read."""
    return Scenario(
        vehicles=options.vehicles,
        interval_s=options.interval_s,
        duration_s=options.duration_s,
        format=options.format,
        seed=options.seed,
        message_bytes=options.message_bytes,
        vehicle_log=_absolute(options.vehicle_log),
        vehicle_mapping=_absolute(options.vehicle_mapping),
        traces=_roads(options) if on_roads else (),
        trace_offsets=options.trace_offsets,
        stages=tuple(
            Stage(duration_s=length_s, begin_vehicles=begin, end_vehicles=end)
            for length_s, begin, end in options.stages
        ),
    )


def _roads(options: RunOptions) -> tuple[str, ...]:
    """Return the traces in whose places the vehicles are: those of their own links, where one of them has places."""
    if options.link == "direct" or TOPOLOGIES[options.topology].edge or options.vehicle_log is not None:
        return ()
    if not any(trace.places() for trace in options.traces):
        return ()
    return tuple(name if name in BUNDLED else str(Path(name).resolve()) for name in options.trace.split(","))


def _absolute(path: str | None) -> str | None:
    """Return where a file is, for processes that may work in another directory."""
    return None if path is None else str(Path(path).resolve())


def page(plan: RunPlan, endpoints: Endpoints) -> ChildSpec:
    """Return how the twin service of the run is started; it is told the ways of the traces whose places vehicles are in."""
    options = plan.options
    traces = dict(zip(options.trace.split(","), options.traces, strict=True)) if _roads(options) else {}
    # Whole ways: a trace may have more steps than a page can draw.
    ways = to_geojson(traces, MAX_POSITIONS // 2)
    if ways is None:
        return ChildSpec("page", ("twin.service",), page_config(plan, endpoints))
    path = plan.directory.work / "roads.geojson"
    path.write_text(ways, encoding="utf-8")
    return ChildSpec("page", ("twin.service",), page_config(plan, endpoints, str(path)))


def gateways(plan: RunPlan, endpoints: Endpoints) -> list[ChildSpec]:
    """Return how the gateways are started, or what echoes the messages where no broker does."""
    options = plan.options
    if plan.topology.bridged:
        every = enumerate(gateway_places(options))
        return [_gateway(plan, endpoints, part, peer, index) for index, (part, peer) in every]
    (part,) = options.parts
    if part.protocol.broker is None and plan.topology.echoed:
        config = echo_config(part.mode.name, endpoints.ports[part.protocol.name], endpoints.cloud_namespace)
        return [ChildSpec(ECHO, ("gateways", f"{part.protocol.name}-echo", "--config"), config)]
    return []


def gateway_places(options: RunOptions) -> list[tuple[FleetPart, int | None]]:
    """Return for each gateway of a run, by its number, whose messages it takes in, and from which place.

    The place is that of `SenderShare.peer`: at the edge the gateway itself, else one of several brokers.
    """
    each = 1 if TOPOLOGIES[options.topology].edge else options.gateways
    return [(part, peer) for part in options.parts for peer, _ in groups(options, part) for _ in range(each)]


def _gateway(plan: RunPlan, endpoints: Endpoints, part: FleetPart, peer: int | None, index: int) -> ChildSpec:
    config = gateway_config(plan, endpoints, part, peer, index)
    return ChildSpec(gateway_id(index), ("gateways", part.protocol.name, "--config"), config)


def queues(options: RunOptions) -> list[str]:
    """Return the names under which the gateways of a run are known to a broker, and may have left messages."""
    return [GROUP, *(gateway_id(index) for index in range(len(gateway_places(options))))]


def client_prefix(options: RunOptions, run_id: str) -> str:
    """Return what goes before the names of a run's clients: on a broker that is there, they are nobody else's."""
    return "" if options.target is None else f"ivsim-{tag_of(run_id)}-"


def capture(plan: RunPlan, endpoints: Endpoints) -> ChildSpec:
    """Return how the capture at the vehicles' end is started."""
    config = capture_config(
        device=endpoints.vehicles_device,
        directory=plan.directory.path,
        echo=plan.topology.echoed,
        attributed_ends=attributed_ends(plan.options),
        probe_ports=[PROBE_PORT],
        pcap=plan.directory.pcap if plan.options.pcap else None,
    )
    return ChildSpec(CAPTURE, ("simulator.capture.process",), config, endpoints.vehicles_namespace)


def consumer(plan: RunPlan, endpoints: Endpoints) -> ChildSpec:
    """Return how the consumer of a platform is started."""
    config = {
        "platform": plan.options.platform,
        "bootstrap": endpoints.platform.bootstrap,
        "kafka_login": endpoints.platform.login,
        "topic": endpoints.platform.topics.status,
        "partitions": plan.options.kafka_partitions,
        "log": str(plan.directory.path / "consumed-0.events"),
    }
    return ChildSpec(CONSUMER, ("ivsim.ingest.process",), config)


def senders(plan: RunPlan, endpoints: Endpoints) -> list[ChildSpec]:
    """Return how this machine's senders are started; each has its share of the vehicles, and a log of its own."""
    return [
        _sender(plan, endpoints, index) for index in range(plan.shards) if plan.senders[index].agent is None
    ]


def agent_sender_config(
    plan: RunPlan, index: int, entrances: Mapping[str, tuple[str, int]] = MappingProxyType({})
) -> SenderConfig:
    """Return what sender `index` is told where an agent has it: its vehicles reach the peer over the network that is there.

    Args:
        plan: of the run.
        index: of the sender.
        entrances: to the run's own brokers, by kind; none with a target.
    """
    share = plan.senders[index]
    if plan.options.target is not None:
        target = parse(plan.options.target)
        host, port = target.host, target.port
    else:
        host, port = entrances[str(share.part.protocol.broker)]
    config = sender_config(
        plan.options,
        protocol=share.part.protocol.name,
        mode=share.part.mode.name,
        host=host,
        port=port,
        events_path=plan.directory.emission_log(index, plan.shards),
        vehicles=share.vehicles,
        client_prefix=client_prefix(plan.options, plan.run_id),
    )
    return config.model_copy(update={"bind_addresses": False})


def sender_name(plan: RunPlan, index: int) -> str:
    """Return the name of sender `index` in a run."""
    return SENDER if plan.shards == 1 else f"{SENDER}-{index}"


def _sender(plan: RunPlan, endpoints: Endpoints, index: int) -> ChildSpec:
    part, vehicles = plan.senders[index].part, plan.senders[index].vehicles
    whole = len(vehicles) == plan.options.vehicles
    own = {vehicle_id(vehicle) for vehicle in vehicles}
    config = sender_config(
        plan.options,
        protocol=part.protocol.name,
        mode=part.mode.name,
        host=endpoints.host(plan.senders[index].peer),
        port=endpoints.ports[part.protocol.name],
        events_path=plan.directory.emission_log(index, plan.shards),
        vehicles=None if whole else vehicles,
        client_prefix=client_prefix(plan.options, plan.run_id),
        tls=endpoints.credentials.tls(),
        certificates=endpoints.credentials.certificates,
        keys=endpoints.credentials.keys,
        passwords={one: word for one, word in endpoints.credentials.passwords.items() if one in own},
        usernames={one: name for one, name in endpoints.credentials.usernames.items() if one in own},
    )
    return ChildSpec(sender_name(plan, index), ("simulator.sender",), config, endpoints.vehicles_namespace)


def twin_config(plan: RunPlan, kafka: KafkaAddress, checkpoint: str) -> dict[str, Any]:
    """Return what the twin process is told; `checkpoint` is the directory, or the URI, where Spark keeps its state."""
    options = plan.options
    return {
        **session_config(options),
        **ledger_config(plan.directory.path, options).model_dump(include=set(RunTerms.model_fields)),
        "bootstrap": kafka.bootstrap,
        "kafka_login": kafka.login,
        "topics_prefix": kafka.topics.prefix,
        "trigger": options.trigger,
        "live": options.live,
        "history": str(history_directory(options) or options.history or ""),
        "history_source": plan.run_id if options.history else "",
        # A run that ends before the first batch does meets no boundary, and need not wait for its rehearsal.
        "rehearse": options.duration_s + options.loss_timeout_s > BOUNDARY_AFTER_S,
        "checkpoint_dir": checkpoint,
        "topic_partitions": options.kafka_partitions,
        "topic_replication": options.kafka_replication,
        "topic_min_insync": options.kafka_min_insync,
        **_query(options),
    }


def shared_checkpoint(base: str, run_id: str) -> dict[str, Any]:
    """Return what the twin of a run on a cluster is told beside: its state lies below a URI, and goes with the run."""
    return {
        "checkpoint_dir": f"{base.rstrip('/')}/{run_id}",
        "checkpoint_kept": False,
        "reopenings": REOPENINGS,
    }


def _query(options: RunOptions) -> dict[str, Any]:
    """Return what the twin is told of a query beside its own; nothing without one."""
    if options.query == "none":
        return {}
    every = () if options.station_table is None else options.station_table.every
    return {"query": options.query, "stations": [list(station) for station in every]}


def jit_of(options: RunOptions) -> Jit:
    """Return how far Java compiles: in full costs CPU at the start, and pays only for a pipeline under load."""
    return "full" if options.vehicles / options.interval_s > MESSAGES_PER_S_UNDER_LOAD else "quick"


def session_config(options: RunOptions) -> dict[str, Any]:
    """Return what of it holds for the whole Spark session, which may serve many runs."""
    partitions = options.kafka_partitions
    # Tasks of the twin's query, of one beside, and as many as two rehearsals have while a batch follows another.
    slots = max(16, (2 * partitions + 1) + partitions + 2 * (partitions + 1))
    return {
        "spark_master": options.spark_master or f"local[{slots}]",
        "driver_host": options.spark_driver_host or "127.0.0.1",
        "spark_conf": as_mapping(options.spark_conf),
        "shuffle_partitions": partitions,
        "jit": jit_of(options),
        "jars_dir": str(installed_jars("spark")),
        "s3_jars_dir": str(installed_jars(S3)) if Place(options.spark_checkpoint or "").stored else "",
        "s3_endpoint": options.s3_endpoint or "",
    }


def page_config(plan: RunPlan, endpoints: Endpoints, roads_file: str = "") -> dict[str, Any]:
    """Return what the twin service of the run is told; it listens on loopback alone."""
    return {
        "bootstrap": endpoints.kafka.bootstrap,
        "kafka_login": endpoints.kafka.login,
        "topics_prefix": endpoints.kafka.topics.prefix,
        "port": plan.options.page_port,
        "roads_file": roads_file,
        "title": f"ivsim run {plan.run_id}",
    }


def linger_ms_of(options: RunOptions, part: FleetPart) -> int:
    """Return how long a record waits at a gateway for others: longer under load, where no vehicle waits for its answer.

    Before a platform that takes Kafka's place it is as long as where they wait, so that all of them are asked alike.
    """
    gateways = [of for of, _ in gateway_places(options)].count(part)
    per_s = len(part.vehicles) / options.interval_s / gateways
    topology = TOPOLOGIES[options.topology]
    waited_for = part.protocol.broker is None or topology.edge or not topology.twins
    if waited_for or options.batching != "none" or per_s <= GATHERED_ABOVE_PER_S:
        return LINGER_MS
    return GATHERED_MS


def gateway_config(
    plan: RunPlan, endpoints: Endpoints, part: FleetPart, peer: int | None, index: int
) -> dict[str, Any]:
    """Return what gateway `index` of the run is told, which takes in what that part of the fleet sends to that place."""
    options, credentials = plan.options, endpoints.credentials
    path = plan.directory.path
    return {
        "bootstrap": endpoints.bootstrap(index),
        "platform": options.platform,
        "kafka_login": endpoints.deliveries.login,
        "kafka_client": options.kafka_client,
        "java": java_of(options.kafka_client),
        "linger_ms": linger_ms_of(options, part),
        "kafka_producer": as_mapping(options.kafka_producer),
        "host": endpoints.host(peer),
        "port": endpoints.ports[part.protocol.name],
        "mode": part.mode.name,
        "format": options.format,
        "topics_prefix": endpoints.deliveries.topics.prefix,
        "namespace": endpoints.gateways_namespace,
        "kafka_inside": endpoints.edge,
        "in_flight_log": str(path / f"in-flight-{index}.events") if endpoints.edge else None,
        "confirmed_log": str(path / f"confirmed-{index}.events") if endpoints.platform.bootstrap else None,
        "tls": None if (tls := credentials.tls(GATEWAY)) is None else asdict(tls),
        "keys": None if credentials.keys is None else asdict(credentials.keys),
        "username": credentials.usernames.get(GATEWAY, GATEWAY) if GATEWAY in credentials.passwords else None,
        "password": credentials.passwords.get(GATEWAY),
        "name": client_prefix(options, plan.run_id) + gateway_id(index),
        "group": client_prefix(options, plan.run_id) + GROUP,
        "shared": options.gateways > 1 and not endpoints.edge,
        "early_ack": options.early_ack and part.mode.gateway_acknowledges,
        "batching": batching_of(options, plan.directory.decision_log(index)),
        "receive_log": str(path / f"received-{index}.events"),
        "faults": {"drop": options.faults.gateway, "mislabel": options.faults.twin},
    }


def java_of(client: str) -> dict[str, Any] | None:
    """Return the Java that a gateway's client library runs on, None where it needs none; Refusal when it is not there."""
    if not SINKS[client].java:
        return None
    return {"library": str(libjvm()), "class_path": client_jars()}


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
    host: str = CLOUD_ADDRESS,
) -> SenderConfig:
    """Return what a sender is told, in a run and in a session of echo cells alike.

    Args:
        options: what the run, or every cell of the process, asks for.
        port: where vehicles send to, at `host`.
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
        host: where vehicles send to.
    """
    return SenderConfig(
        protocol=options.protocol if protocol is None else protocol,
        mode=options.mode if mode is None else mode,
        topology="echo" if TOPOLOGIES[options.topology].echoed else "gateway",
        host=host,
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
    """Return how long it takes until the last vehicle of the fleet is due to connect, in a share too; 0 without a rate."""
    return 0.0 if options.connect_rate_per_s is None else options.vehicles / options.connect_rate_per_s


def attributed_ends(options: RunOptions) -> list[int] | None:
    """Return the numbers of the vehicles whose bytes are attributed to messages; at the edge, of the gateways. None: of all.

    Attribution follows 40,000 frames/s. Of a fleet that sends more than MESSAGES_PER_S_ATTRIBUTED it is told a random
    sample that sends so many: the same share of each part of the fleet, drawn by the run's seed.
    """
    messages_per_s = options.sending / options.interval_s
    if messages_per_s <= MESSAGES_PER_S_ATTRIBUTED:
        return None
    share = MESSAGES_PER_S_ATTRIBUTED / messages_per_s
    chance = random.Random(options.seed)
    return sorted(
        number for ends in _ends(options) for number in chance.sample(ends, max(1, int(len(ends) * share)))
    )


def _ends(options: RunOptions) -> list[list[int]]:
    """Return the numbers at the vehicles' end of the link, by parts of the fleet."""
    if TOPOLOGIES[options.topology].edge:
        return [[gateway_number(index) for index in range(len(gateway_places(options)))]]
    return [list(part.vehicles) for part in options.parts]


def capture_config(
    *,
    device: str,
    directory: Path,
    echo: bool,
    attributed_ends: Sequence[int] | None = None,
    datagram_ports: Mapping[str, Sequence[int]] | None = None,
    probe_ports: Sequence[int] = (),
    pcap: Path | None = None,
) -> CaptureConfig:
    """Return what the capture at the vehicles' end is told.

    Args:
        device: the vehicles' end of the link.
        directory: where its tables go.
        echo: whether messages come back to the vehicles.
        attributed_ends: whose bytes are attributed to messages; None: everybody's.
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
        attributed_ends=None if attributed_ends is None else list(attributed_ends),
        pcap=None if pcap is None else str(pcap),
    )


def receive_logs(directory: Path) -> list[Path]:
    """Return the gateways' receive logs in a run directory."""
    return sorted(directory.glob("received-*.events"))


def confirmed_logs(directory: Path) -> list[Path]:
    """Return what gateways noted of the platform's confirmations."""
    return sorted(directory.glob("confirmed-*.events"))


def consumed_logs(directory: Path) -> list[Path]:
    """Return what the consumer noted of a platform's records; one log at most."""
    return sorted(directory.glob("consumed-*.events"))


def in_flight_logs(directory: Path) -> list[Path]:
    """Return what gateways at the edge noted of requests that Kafka had not answered when they ended."""
    return sorted(directory.glob("in-flight-*.events"))
