"""The gateway with one foot on each side: the broker in the cloud's namespace, Kafka on the host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ivsim.testbed.child import Child
from ivsim.testbed.credentials import GATEWAY, PLAIN, Credentials, make_credentials
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.topics import CLOUD_ADDRESS, KafkaTopics
from simulator.emission_table import to_table
from simulator.links.direct import DirectLink
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.kafka, pytest.mark.netns]

VEHICLES = 3
SCENARIO = {"vehicles": VEHICLES, "interval_s": 0.2, "duration_s": 4.0}


@pytest.fixture(params=[pytest.param("plain", marks=pytest.mark.full), "tls"])
def credentials(request: pytest.FixtureRequest, tmp_path: Path) -> Credentials:
    return PLAIN if request.param == "plain" else make_credentials(tmp_path / "keys", VEHICLES)


@pytest.fixture
def link(run_record: RunRecord) -> Iterator[DirectLink]:
    made = DirectLink(run_record.run_id, VEHICLES)
    run_record.namespace(made.vehicles_namespace)
    run_record.namespace(made.cloud_namespace)
    with made:
        yield made


def named(records: list[Any]) -> set[tuple[bytes, int]]:
    return {(record.key(), int(dict(record.headers())["sequence"])) for record in records}


def test_vehicles_to_kafka_across_two_namespaces_and_a_broker_restart(
    link: DirectLink,
    credentials: Credentials,
    kafka: str,
    topics: KafkaTopics,
    run_record: RunRecord,
    start_gateway: Callable[..., Child],
    read_records: Callable[..., list[Any]],
    until: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    cloud = link.cloud_namespace
    security = credentials.security
    tls = None if credentials.authority is None else {"ca_file": str(credentials.authority)}
    secured = credentials is not PLAIN
    with MosquittoServer(run_record, host=CLOUD_ADDRESS, namespace=cloud, security=security) as broker:
        gateway = start_gateway(
            bootstrap=kafka,
            host=broker.host,
            port=broker.port,
            topics_prefix=topics.prefix,
            namespace=cloud,
            tls=tls,
            username=GATEWAY if secured else None,
            password=credentials.passwords.get(GATEWAY),
        )
        path, events_path = tmp_path / "sender.json", tmp_path / "emissions.events"
        config = {
            "scenario": SCENARIO,
            "protocol": "mqtt",
            "mode": "qos1",
            "host": broker.host,
            "port": broker.port,
            "events_path": str(events_path),
            "bind_addresses": True,
            "tls": tls,
            "passwords": credentials.passwords if secured else None,
            "reconnect_first_s": 0.1,
            "reconnect_most_s": 0.5,
        }
        path.write_text(json.dumps(config))
        with Child(
            "sender", ["simulator.sender", str(path)], run_record, namespace=link.vehicles_namespace
        ) as sender:
            assert sender.wait_for("ready", 30)["connected"] == VEHICLES
            start_at_ns = time.time_ns() + 300_000_000
            sender.send("start", at_ns=start_at_ns)
            while sender.wait_for("progress", 10)["acknowledged"] < 15:
                pass
            broker.restart()
            done = sender.wait_for("done", 60)
        assert (done["unsent"], done["acknowledged"]) == (0, 60)
        rows = to_table(events_path, Scenario(**SCENARIO), start_at_ns).to_pylist()
        keys = {(row["vehicle_id"].encode(), row["sequence"]) for row in rows}
        # A message that was between gateway and Kafka when the broker stopped comes again: 60 records may lack one.
        records = read_records(kafka, topics.status, 60, lambda found: named(found) == keys)
        assert named(records) == keys
        assert until(gateway, lambda e: e["connections_lost"] > 0)["connections_lost"] == 1
