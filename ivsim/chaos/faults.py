"""The faults: each kills or cuts one part of a running testbed, and brings it back; it judges nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateways.protocols import PROTOCOLS
from ivsim.chaos.promises import ENDS_OF_BROKER, KILLS_OF_BROKER, BrokerEnd
from ivsim.runs.started import StartedRun
from ivsim.runs.twin_session import TwinSession
from ivsim.testbed.kafka_admin import leader_of
from ivsim.testbed.process import POLL_S
from ivsim.testbed.server import Broker, Server

GATEWAYS = ("gateway", "second-gateway")
PARTS = ("broker", *GATEWAYS, "kafka", "twin", "platform", "link")
OUTAGE_S = 20.0
DOWN_S = 3.0
BACKLOG_S = 4.0
UNSAVED_S = 1.0


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: the word of the command line.
        what: one line for the table.
        inject: does it, and returns the names of processes that are down on purpose.
        restore: brings the part back; returns once it is ready again.
        down_s: how long it stays.
        of_broker: the broker is what fails.
        of_twins: what fails is Kafka or the twins behind it, which a run through another platform does not have.
        of_platform: the platform of such a run is what fails.
        parts: what fails, in the words of `PARTS`; two faults at a time never share one.
    """

    name: str
    what: str
    inject: Callable[[StartedRun], set[str]]
    restore: Callable[[StartedRun], None]
    down_s: float = DOWN_S
    of_broker: bool = False
    of_twins: bool = False
    of_platform: bool = False
    parts: tuple[str, ...] = ()

    def applies_to(self, protocol: str, platform: str = "") -> bool:
        """Say whether a run has the part: CoAP has no broker, and a run through a platform ("": none) no twins."""
        if (self.of_twins and platform) or (self.of_platform and not platform):
            return False
        return not self.of_broker or PROTOCOLS[protocol].broker is not None


def _broker(run: StartedRun) -> Broker:
    broker = run.components.broker
    assert broker is not None, "`applies_to` keeps faults of a broker from protocols without one"
    return broker


class BrokerEnds:
    """The ends of one run's broker, where it is one that loses something by them; this watches, and ends nothing.

    Attributes:
        found: in order.
    """

    def __init__(self) -> None:
        self.found: list[BrokerEnd] = []

    def note(self, run: StartedRun, fault: str) -> None:
        """Take down what a fault has just done to the broker; nothing for another fault, or a broker that loses nothing."""
        if fault not in ENDS_OF_BROKER or (saved_s := _broker(run).last_save_s()) is None:
            return
        now_ns = time.time_ns()
        if self.found and _shared(run) and self.found[-1].shared_again_at_ns is None:
            # Nobody had subscribed meanwhile.
            self.found[-1] = replace(self.found[-1], shared_again_at_ns=now_ns)
        killed = fault in KILLS_OF_BROKER
        self.found.append(BrokerEnd(now_ns, round(saved_s * 1e9) if killed else None))

    def watch(self, run: StartedRun) -> None:
        """Read from the gateways' own words which of several had its connection, and so its subscription, again first."""
        if not self.found or not _shared(run):
            return
        told = (run.components.children[name].latest.get("progress", {}) for name in gateways_of(run))
        at_ns = [progress.get("connected_at_ns", 0) for progress in told]
        for index, end in enumerate(self.found):  # what is told late may be of the end before
            known = [] if end.shared_again_at_ns is None else [end.shared_again_at_ns]
            until_ns = min([later.ended_at_ns for later in self.found[index + 1 :]], default=None)
            within = [at for at in at_ns if at > end.ended_at_ns and (until_ns is None or at < until_ns)]
            self.found[index] = replace(end, shared_again_at_ns=min(within + known, default=None))


def _shared(run: StartedRun) -> bool:
    return len(gateways_of(run)) > 1


def _kill_broker(run: StartedRun) -> set[str]:
    process = _broker(run).process
    process.kill()
    return {process.name}


def _stop_broker(run: StartedRun) -> set[str]:
    process = _broker(run).process
    process.popen.send_signal(signal.SIGTERM)
    process.popen.wait(process.stop_timeout_s)
    return {process.name}


def _restart_broker(run: StartedRun) -> None:
    _broker(run).restart()


def _kill_gateway(run: StartedRun) -> set[str]:
    name = run.components.gateways[0]
    run.components.children[name].kill()
    return {name}


def _restart_gateway(run: StartedRun) -> None:
    run.components.children.restart(run.components.gateways[0])


def gateways_of(run: StartedRun) -> tuple[str, ...]:
    """Return the names of the gateways that share the vehicles of the fleet's protocol, of a mix the first one's."""
    return run.components.gateways[: run.options.gateways]


def _kill_broker_with_backlog(run: StartedRun) -> set[str]:
    # With its gateways away the broker holds every message that it acknowledges: the most it can lose.
    down = set(gateways_of(run))
    for name in down:
        run.components.children[name].kill()
    time.sleep(BACKLOG_S)
    # What a broker has just saved it does not lose: wait until it has acknowledged more.
    while (saved_s := _broker(run).last_save_s()) is not None and time.time() - saved_s < UNSAVED_S:
        time.sleep(POLL_S)
    return down | _kill_broker(run)


def _restart_both(run: StartedRun) -> None:
    _restart_broker(run)
    for name in gateways_of(run):
        run.components.children.restart(name)


def _kill_kafka(run: StartedRun) -> set[str]:
    endpoint = run.components.endpoints.kafka
    leader = leader_of(endpoint.bootstrap, endpoint.topics.status, login=endpoint.login)
    process = run.components.kafka[leader - 1].process
    process.kill()
    return {process.name}


def _restart_kafka(run: StartedRun) -> None:
    for server in run.components.kafka:
        if not server.process.running():
            server.restart()


def _kill_platform(run: StartedRun) -> set[str]:
    process = _platform(run).process
    process.kill()
    return {process.name}


def _restart_platform(run: StartedRun) -> None:
    _platform(run).restart()


def _platform(run: StartedRun) -> Server:
    return run.components.platform[0]


def _kill_spark(run: StartedRun) -> set[str]:
    process = _twin(run).process
    process.kill()
    return {process.name}


def _restart_spark(run: StartedRun) -> None:
    _twin(run).restart()


def _twin(run: StartedRun) -> TwinSession:
    twin = run.components.twin
    assert twin is not None, "every case has a twin"
    return twin


def _cut_link(run: StartedRun) -> set[str]:
    run.replay.cut(OUTAGE_S)
    return set()


def _nothing(_run: StartedRun) -> None:
    """The link comes back by itself."""


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "broker-kill",
            "kill -9 of the broker",
            _kill_broker,
            _restart_broker,
            of_broker=True,
            parts=("broker",),
        ),
        Fault(
            "broker-stop",
            "SIGTERM to the broker, and a restart",
            _stop_broker,
            _restart_broker,
            of_broker=True,
            parts=("broker",),
        ),
        Fault(
            "backlog-kill",
            "kill -9 of the broker while it holds its gateways' backlog",
            _kill_broker_with_backlog,
            _restart_both,
            of_broker=True,
            parts=("broker", *GATEWAYS),
        ),
        Fault("gateway-kill", "kill -9 of the gateway", _kill_gateway, _restart_gateway, parts=("gateway",)),
        Fault(
            "kafka-kill",
            "kill -9 of Kafka",
            _kill_kafka,
            _restart_kafka,
            of_twins=True,
            parts=("kafka",),
        ),
        Fault(
            "spark-kill",
            "kill -9 of the Spark job",
            _kill_spark,
            _restart_spark,
            of_twins=True,
            parts=("twin",),
        ),
        Fault(
            "platform-kill",
            "kill -9 of the platform",
            _kill_platform,
            _restart_platform,
            of_platform=True,
            parts=("platform",),
        ),
        Fault("link-cut", "no packet moves for 20 s", _cut_link, _nothing, OUTAGE_S, parts=("link",)),
    )
}
