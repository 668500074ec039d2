"""Every real part of a run, opened in order and closed in reverse by one stack; knows nothing of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ivsim.agents.rig import Agents
from ivsim.runs import processes
from ivsim.runs.children import READY_S, Children
from ivsim.runs.display import Display
from ivsim.runs.endpoints import Endpoints, KafkaAddress
from ivsim.runs.link_player import LinkPlayer
from ivsim.runs.live_reader import LiveReader
from ivsim.runs.plan import RunPlan
from ivsim.runs.shared_parts import SharedParts
from ivsim.runs.twin_session import TwinSession
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.server import Broker, Server
from simulator.links import Link

# A sender builds its vehicles before it connects them, each in 2 ms where nothing else takes the core.
BUILT_WITHIN_S = 0.01


@dataclass(frozen=True)
class Components:
    """The parts of a run, all open and ready.

    Attributes:
        servers: those that the testbed has started, by name: its broker, and its Kafka where it has one.
        brokers: by kind, of several by name; none where all vehicles send to the gateway itself.
        senders: names of the processes that share the vehicles.
        gateways: names of the processes that take the messages in, or echo them.
        twin: the Spark session; None where nothing streams.
        live_reader: None where nothing streams.
        platform: servers of the platform in the twins' place that the testbed has started; none where it is another's.
        agents: who has senders on other machines; none where this one has all.
    """

    endpoints: Endpoints
    link: Link
    replay: LinkPlayer
    servers: dict[str, Server]
    brokers: dict[str, Broker]
    children: Children
    senders: tuple[str, ...]
    gateways: tuple[str, ...]
    twin: TwinSession | None
    live_reader: LiveReader | None
    agents: Agents
    platform: tuple[Server, ...] = ()

    @property
    def broker(self) -> Broker | None:
        """Return the broker of the fleet's protocol, of a mix the first one's that has one; None where none has."""
        return next(iter(self.brokers.values()), None)

    @property
    def kafka(self) -> list[KafkaServer]:
        """Return the brokers of Kafka that the testbed has started, by their node ids from 1; none where it has none."""
        return [server for server in self.servers.values() if isinstance(server, KafkaServer)]

    @property
    def capture(self) -> Child | None:
        """Return who sees the frames at the vehicles' end; None where agents have some of them, which it would not see."""
        return self.children.get(processes.CAPTURE)

    @property
    def consumer(self) -> Child | None:
        """Return who reads what gateways deliver to a platform; None where that is the twins' to do."""
        return self.children.get(processes.CONSUMER)

    def check(self) -> None:
        """Raise ProcessDied when a process of the run has ended that is not down on purpose.

        A sender that dies beside others takes its own vehicles with it and nothing else: it is noted in `children.dead`,
        and the run goes on.
        """
        for process in self._shared_processes():
            if process.name not in self.children.down:
                process.check()
        self.children.spare(self.senders)
        self.children.check()

    def _shared_processes(self) -> Iterator[OwnedProcess]:
        yield from (server.process for server in self.servers.values())
        if self.twin is not None:
            yield self.twin.process


def open_components(
    plan: RunPlan, record: RunRecord, stack: ExitStack, shared: SharedParts, display: Display
) -> Components:
    """Open everything up to vehicles that are connected and waiting for the start.

    Slow starters come first, so that they start while the others are made. Spark is the slowest: vehicles are built and
    connected while it gets ready, and wait for it.
    """
    options = plan.options
    children = Children(record, plan.directory.work, stack)
    servers: dict[str, Server] = {}
    kafka, platform, twin = _deliveries(plan, shared, stack, servers, display)
    of_platform = tuple(servers.values()) if platform.bootstrap else ()
    replay = LinkPlayer(children, plan.schedule, plan.directory.work, probed=plan.schedule.numbers)
    link = shared.link(options)
    stack.callback(shared.clear, plan)
    stack.callback(replay.stop)  # it has told the link what `clear` has to know
    display.phase("starting broker and gateway")
    brokers, credentials = shared.brokers(plan, record, stack)
    servers |= {broker.process.name: broker for broker in brokers.values()}
    servers |= shared.relays(kafka, record, stack)
    entrances = shared.entrances(options.entrance, brokers, record, stack)
    servers |= {entrance.process.name: entrance for entrance in entrances.values()}
    endpoints = Endpoints.of(
        options.parts, link, brokers, kafka, credentials, edge=plan.topology.edge, platform=platform
    )
    agents = stack.enter_context(Agents(options.agents, options.agent_token_file))
    gateways = processes.gateways(plan, endpoints)
    consumer = [processes.consumer(plan, endpoints)] if platform.bootstrap else []
    specs = [*gateways, *consumer, *([] if options.agents else [processes.capture(plan, endpoints)])]
    for spec in specs:
        children.start(spec)
    for spec in specs:
        children[spec.name].wait_for("ready", READY_S)
    # A subscription that a broker has not saved is gone when it is killed: until the gateway is back it would acknowledge
    # what goes nowhere.
    for broker in brokers.values():
        broker.save()
    _before_connecting(plan, link, twin, display)
    # The capture listens by now: it has to see the connections begin.
    for spec in processes.senders(plan, endpoints):
        children.start(spec)
    _start_on_agents(plan, agents, children, {kind: (one.host, one.port) for kind, one in entrances.items()})
    senders = [children.part(processes.sender_name(plan, index)) for index in range(plan.shards)]
    live_reader = None
    if twin is not None:
        display.phase("waiting for Spark")
        twin.wait_ready()
    if plan.topology.twins:
        live_reader = stack.enter_context(LiveReader(kafka))
    if options.page:
        page = children.start(processes.page(plan, endpoints))
        display.note(f"live page: {page.wait_for('ready', READY_S)['url']}")
    display.phase(f"connecting {options.sending} vehicles")
    within_s = READY_S + options.sending * BUILT_WITHIN_S + processes.connecting_s(options)
    for sender in senders:
        sender.wait_for("ready", within_s)
    replay.wait_ready()
    return Components(
        endpoints,
        link,
        replay,
        servers,
        brokers,
        children,
        tuple(sender.name for sender in senders),
        tuple(spec.name for spec in gateways),
        twin,
        live_reader,
        agents,
        of_platform,
    )


def _deliveries(
    plan: RunPlan, shared: SharedParts, stack: ExitStack, servers: dict[str, Server], display: Display
) -> tuple[KafkaAddress, KafkaAddress, TwinSession | None]:
    """Return Kafka and the twins behind it, which begin to start, or the platform in their place; nothing where none is."""
    none = KafkaAddress()
    if plan.topology.twins:
        display.phase("starting Kafka")
        kafka = shared.kafka(plan, stack, servers)
        display.phase("starting Spark, and the link")
        shared.open_twin(plan, kafka, stack)
        return kafka, none, shared.twin
    if plan.topology.bridged:
        display.phase("starting the platform, and the link")
        return none, shared.platform(plan, stack, servers), None
    return none, none, None


def _start_on_agents(
    plan: RunPlan, agents: Agents, children: Children, entrances: Mapping[str, tuple[str, int]]
) -> None:
    """Let each agent begin to start its senders, which the run then knows as it knows its own."""
    for index, share in enumerate(plan.senders):
        if share.agent is not None:
            name, config = (
                processes.sender_name(plan, index),
                processes.agent_sender_config(plan, index, entrances),
            )
            raw = plan.directory.work / f"{name}.events"
            children.adopt(agents.start(share.agent, name, index, config, raw))


def _before_connecting(plan: RunPlan, link: Link, twin: TwinSession | None, display: Display) -> None:
    """Let vehicles whose connecting is measured do it over the link as it will be, and not beside Spark's start."""
    if plan.options.connect_rate_per_s is None:
        return
    if twin is not None:
        display.phase("waiting for Spark")
        twin.wait_ready()
    link.update(plan.schedule.at(0))
