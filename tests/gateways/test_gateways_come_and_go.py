"""Several gateways share a fleet while one is killed, one joins, and one is stopped: every protocol keeps its promise.

Real vehicles, broker, gateways and Kafka; no twin. What the vehicles' emission log calls acknowledged is in Kafka, and
where a mode keeps its messages everything that was due is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateways.protocols import PROTOCOLS
from ivsim.chaos.promises import KEEPS, promise_of
from ivsim.testbed.child import Child
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.servers import SERVERS
from schemas.formats import FORMATS
from schemas.topics import KafkaTopics
from simulator.emission_log import Kind
from simulator.emission_table import read_events
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.kafka]

MODES = [
    pytest.param(name, protocol.default_mode, marks=[pytest.mark.full] if name == "amqp" else [])
    for name, protocol in PROTOCOLS.items()
]
# Longer than any of it takes: the test ends the vehicles once it has seen enough. So many that each gateway has some.
FLEET = Scenario(vehicles=40, interval_s=1.0, duration_s=600.0)
SOME = 40
WAIT_S = 90.0
FORMAT = FORMATS[FLEET.format]


@pytest.fixture
def place(run_record: RunRecord) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Return where vehicles and gateways of a protocol meet: a broker of the test's own, or any port."""
    with ExitStack() as stack:

        def opened(name: str) -> dict[str, Any]:
            kind = PROTOCOLS[name].broker
            if kind is None:
                return {"host": "127.0.0.1", "port": 0}
            server = stack.enter_context(SERVERS[kind].open(run_record))
            return {"host": server.host, "port": server.port}

        yield opened


@pytest.fixture
def start_sender(tmp_path: Path, run_record: RunRecord) -> Iterator[Callable[..., Child]]:
    """Start vehicles that are connected and send from now on."""
    with ExitStack() as stack:

        def start(**config: Any) -> Child:
            path = tmp_path / "sender.json"
            path.write_text(json.dumps({**config, "scenario": FLEET.model_dump()}))
            child = stack.enter_context(Child("sender", ["simulator.sender", str(path)], run_record))
            child.wait_for("ready", 60.0)
            child.send("start", at_ns=time.time_ns() + 200_000_000)
            return child

        yield start


@pytest.mark.parametrize(("protocol", "mode"), MODES)
def test_the_promise_holds_while_gateways_come_and_go(
    protocol: str,
    mode: str,
    place: Callable[[str], dict[str, Any]],
    kafka: str,
    topics: KafkaTopics,
    start_gateway: Callable[..., Child],
    start_sender: Callable[..., Child],
    read_records: Callable[..., list[Any]],
    until: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    where = place(protocol)
    common = {"bootstrap": kafka, "topics_prefix": topics.prefix, "mode": mode, "shared": True}

    def gateway(number: int) -> Child:
        return start_gateway(protocol=protocol, **where, **common, name=f"come-and-go-{number}")

    killed = gateway(0)
    where["port"] = killed.latest["ready"]["port"] if where["port"] == 0 else where["port"]
    stopped = gateway(1)
    log = tmp_path / "emissions.events"
    sender = start_sender(protocol=protocol, mode=mode, **where, events_path=str(log))
    until(sender, lambda event: event["emitted"] >= SOME, WAIT_S)
    killed.kill()
    before = sender.latest["progress"]["emitted"]
    until(sender, lambda event: event["emitted"] >= before + SOME, WAIT_S)
    joined = gateway(2)
    returned = gateway(0)
    for one in (joined, returned):
        until(one, lambda event: event["delivered"] > 0, WAIT_S)
    stopped.stop()
    # What was on its way to the one that is gone has come to another, too.
    gone = sender.latest["progress"]["emitted"]
    acknowledged = PROTOCOLS[protocol].modes[mode].acknowledged
    until(sender, lambda event: event["acknowledged" if acknowledged else "emitted"] >= gone + SOME, WAIT_S)
    sender.stop()

    events = read_events(log)
    emitted, owed, ended = (
        {(int(one["vehicle"]), int(one["sequence"])) for one in events[np.isin(events["kind"], kinds)]}
        for kinds in ((Kind.EMITTED,), (Kind.ACKNOWLEDGED,), (Kind.REFUSED, Kind.UNANSWERED))
    )
    promise = promise_of(protocol, PROTOCOLS[protocol].modes[mode], "gateway-kill")
    if promise is KEEPS:
        assert ended == set(), "nothing was given up"
    if promise.lost_at:
        owed = set()

    def names(records: list[Any]) -> set[tuple[int, int]]:
        peeks = [FORMAT.peek(record.value()) for record in records]
        return {(int(str(peek.vehicle_id)[-6:]), peek.sequence) for peek in peeks}

    found = names(read_records(kafka, topics.status, len(owed), lambda records: names(records) >= owed, 30.0))
    assert owed - found == set(), "acknowledged to its vehicle, and not in Kafka"
    assert len(found) > len(emitted) / 3
    assert stopped.latest["done"]["drained"]
    assert stopped.latest["done"]["received"] > 0
