"""The faults: each kills or cuts one part of a running testbed, and brings it back; it judges nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateways.protocols import PROTOCOLS
from ivsim import child_configs as configs
from ivsim.parts import READY_S, Parts, start_child
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import POLL_S
from simulator.road import Road

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
    """

    name: str
    what: str
    inject: Callable[[Parts, Road, int], set[str]]
    restore: Callable[[Parts], None]
    down_s: float = DOWN_S
    of_broker: bool = False

    def applies_to(self, protocol: str) -> bool:
        """Say whether the protocol has the part: CoAP has no broker."""
        return not self.of_broker or PROTOCOLS[protocol].broker is not None


def _kill_broker(parts: Parts, _road: Road, _second: int) -> set[str]:
    assert parts.broker is not None
    parts.broker.process.kill()
    return {parts.broker.process.name}


def _stop_broker(parts: Parts, _road: Road, _second: int) -> set[str]:
    assert parts.broker is not None
    process = parts.broker.process
    process.popen.send_signal(signal.SIGTERM)
    process.popen.wait(process.stop_timeout_s)
    return {process.name}


def _restart_broker(parts: Parts) -> None:
    assert parts.broker is not None
    parts.broker.restart()


def _kill_gateway(parts: Parts, _road: Road, _second: int) -> set[str]:
    parts.gateways[0].kill()
    return {parts.gateways[0].name}


def _restart_gateway(parts: Parts) -> None:
    config = configs.gateway_config(parts, 0)
    arguments = ["gateways", parts.options.protocol, "--config"]
    parts.gateways[0] = start_child(parts, config["name"], arguments, config)
    parts.gateways[0].wait_for("ready", READY_S)


def _kill_broker_with_backlog(parts: Parts, road: Road, second: int) -> set[str]:
    # With its gateway away the broker holds every message that it acknowledges: the most it can lose.
    down = _kill_gateway(parts, road, second)
    time.sleep(BACKLOG_S)
    # What mosquitto has just saved it does not lose: wait until it has acknowledged more.
    while isinstance(parts.broker, MosquittoServer) and time.time() - parts.broker.last_save_s() < UNSAVED_S:
        time.sleep(POLL_S)
    return down | _kill_broker(parts, road, second)


def _restart_both(parts: Parts) -> None:
    _restart_broker(parts)
    _restart_gateway(parts)


def _kill_kafka(parts: Parts, _road: Road, _second: int) -> set[str]:
    assert parts.kafka is not None
    parts.kafka.process.kill()
    return {parts.kafka.process.name}


def _restart_kafka(parts: Parts) -> None:
    assert parts.kafka is not None
    parts.kafka.restart()


def _kill_spark(parts: Parts, _road: Road, _second: int) -> set[str]:
    assert parts.twin is not None
    parts.twin.kill()
    return {parts.twin.name}


def _restart_spark(parts: Parts) -> None:
    parts.twin = start_child(parts, "twin", ["twin"], configs.twin_config(parts))
    parts.twin.wait_for("ready", READY_S)


def _cut_link(_parts: Parts, road: Road, second: int) -> set[str]:
    # The road is read once a second: the cut begins with the next one.
    road.cut(second + 1, OUTAGE_S)
    return set()


def _nothing(_parts: Parts) -> None:
    """The road comes back by itself."""


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("broker-kill", "kill -9 of the broker", _kill_broker, _restart_broker, of_broker=True),
        Fault(
            "broker-stop",
            "SIGTERM to the broker, and a restart",
            _stop_broker,
            _restart_broker,
            of_broker=True,
        ),
        Fault(
            "backlog-kill",
            "kill -9 of the broker while it holds the gateway's backlog",
            _kill_broker_with_backlog,
            _restart_both,
            of_broker=True,
        ),
        Fault("gateway-kill", "kill -9 of the gateway", _kill_gateway, _restart_gateway),
        Fault("kafka-kill", "kill -9 of Kafka", _kill_kafka, _restart_kafka),
        Fault("spark-kill", "kill -9 of the Spark job", _kill_spark, _restart_spark),
        Fault("link-cut", "no packet moves for 20 s", _cut_link, _nothing, OUTAGE_S),
    )
}
