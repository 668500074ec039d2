"""A fleet's messages through real brokers and a gateway that makes the batches an `ivsim run` asks for, into Kafka."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ivsim.options import RunOptions
from ivsim.runs.processes import batching_of
from ivsim.testbed.child import Child
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics
from simulator.emission_table import to_table
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.kafka]

START_S, END_S = 60.0, 90.0
OPTIONS = RunOptions(batching="fixed", batch_messages=4, batch_ms=150.0)
SCENARIO = {"vehicles": 10, "interval_s": 0.1, "duration_s": 4.0}
PROTOCOLS = [
    ("mqtt", "qos1"),
    pytest.param("amqp", "manual-confirms-persistent", marks=pytest.mark.full),
]


@pytest.fixture
def send(tmp_path: Path, run_record: RunRecord) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Send a fleet's messages and return the emission log's rows; `meanwhile` is done once it has begun."""
    with ExitStack() as stack:

        def sent(
            protocol: str, mode: str, host: str, port: int, meanwhile: Callable[[], None]
        ) -> list[dict[str, Any]]:
            path, events = tmp_path / "sender.json", tmp_path / "emissions.events"
            config = {
                "scenario": SCENARIO, "protocol": protocol, "mode": mode, "host": host, "port": port,
                "events_path": str(events), "reconnect_first_s": 0.1, "reconnect_most_s": 0.5, "drain_s": 40.0,
            }  # fmt: skip
            path.write_text(json.dumps(config))
            child = stack.enter_context(Child("sender", ["simulator.sender", str(path)], run_record))
            child.wait_for("ready", START_S)
            start_at_ns = time.time_ns() + 300_000_000
            child.send("start", at_ns=start_at_ns)
            meanwhile()
            child.wait_for("done", END_S)
            return to_table(events, Scenario(**SCENARIO), start_at_ns).to_pylist()

        yield sent


@pytest.fixture
def place(
    request: pytest.FixtureRequest, kafka: str, topics: KafkaTopics
) -> Callable[[str, str], dict[str, Any]]:
    def placed(protocol: str, mode: str) -> dict[str, Any]:
        broker = {"mqtt": "mosquitto_loopback", "amqp": "rabbitmq_loopback"}[protocol]
        host, port = request.getfixturevalue(broker)
        return {
            "protocol": protocol, "mode": mode, "host": host, "port": port,
            "bootstrap": kafka, "topics_prefix": topics.prefix, "batching": batching_of(OPTIONS, Path("unused")),
        }  # fmt: skip

    return placed


def named(record: Any) -> tuple[str, int]:
    return record.key().decode(), int(dict(record.headers())["sequence"])


@pytest.mark.parametrize(("protocol", "mode"), PROTOCOLS)
def test_all_of_a_fleet_arrives_once_in_order_and_in_batches(
    place, topics, start_gateway, send, read_records, until, protocol: str, mode: str
) -> None:
    config = place(protocol, mode)
    gateway = start_gateway(**config)
    rows = send(protocol, mode, config["host"], config["port"], lambda: None)
    until(gateway, lambda event: event["delivered"] >= len(rows))
    gateway.stop()
    done = gateway.latest["done"]
    assert len(rows) == 400
    assert (done["drained"], done["held"], done["produce_errors"]) == (True, 0, 0)
    assert done["received"] == done["delivered"] == done["acknowledged"] == 400
    assert 0 < done["full_batches"] <= done["batches"] <= 400 - 3 * done["full_batches"]
    found = [named(record) for record in read_records(config["bootstrap"], topics.status, 400)]
    assert sorted(found) == sorted((row["vehicle_id"], row["sequence"]) for row in rows)
    sequences = defaultdict(list)
    for vehicle, sequence in found:
        sequences[vehicle].append(sequence)
    assert all(several == sorted(several) for several in sequences.values())


@pytest.mark.parametrize(("protocol", "mode"), PROTOCOLS)
def test_a_gateway_killed_with_open_batches_loses_nothing_acknowledged(
    place, topics, start_gateway, send, read_records, until, protocol: str, mode: str
) -> None:
    config = place(protocol, mode)
    gateway = start_gateway(**config)

    def killed() -> None:
        event = until(gateway, lambda e: e["delivered"] >= 100 and e["held"] > 0)
        assert event["acknowledged"] == event["delivered"]
        gateway.kill()
        start_gateway(**config)

    rows = send(protocol, mode, config["host"], config["port"], killed)
    acknowledged = {(r["vehicle_id"], r["sequence"]) for r in rows if r["acknowledged_at_ns"]}
    assert len(acknowledged) == 400
    records = read_records(
        config["bootstrap"], topics.status, 400, lambda found: {named(r) for r in found} >= acknowledged
    )
    assert {named(record) for record in records} == acknowledged
