"""A fleet in four shares, each a run of its own in a network of its own, on one broker: what they sent together, and the result."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pyarrow.parquet as pq
import pytest
from fleet_shares import ENDS_S, SHARES, await_shares, hub_address, networks, sending, soon

from ivsim.audit import audit
from ivsim.library.join import join
from ivsim.share import FleetShare
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from schemas.json_files import read_json
from schemas.namespace import inside
from schemas.topics import vehicle_id
from simulator.fleet import emissions
from simulator.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.netns, pytest.mark.full]

FLEET = Scenario(vehicles=10, interval_s=1.0, duration_s=6.0, seed=5)
WORDS = ("--stage", "6s:10", "--rate", "1", "--seed", "5", "--loss-timeout", "10")


def of(vehicles: set[str], path: Path) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path).to_pylist() if row["vehicle_id"] in vehicles]


def test_four_shares_send_the_fleet_and_their_results_are_the_fleets(
    run_record: RunRecord, tmp_path: Path
) -> None:
    seen: Counter[tuple[str, bytes]] = Counter()
    start_at = soon()
    with (
        networks(run_record) as (hub, shares),
        MosquittoServer(run_record, host="0.0.0.0", namespace=hub, name="theirs") as broker,
    ):
        listener = paho.Client(paho.CallbackAPIVersion.VERSION2)
        marked = threading.Event()
        listener.message_callback_add("mark", lambda *_: marked.set())
        listener.on_message = lambda _client, _data, message: seen.update(
            [(message.topic.split("/")[1], message.payload)]
        )
        with inside(hub):
            listener.connect(hub_address(0), broker.port)
        listener.subscribe([("vehicles/#", 1), ("mark", 1)])
        listener.loop_start()
        with sending(shares, broker.port, start_at, WORDS, tmp_path) as runs:
            await_shares(runs)
        # A broker delivers to a subscriber in order: behind the mark nothing of the runs is on its way.
        listener.publish("mark", qos=1)
        assert marked.wait(ENDS_S)
        listener.loop_stop()
        listener.disconnect()
    start_at_ns = int(start_at.timestamp()) * 10**9
    expected = Counter((vehicle_id(one.vehicle), one.payload) for one in emissions(FLEET, start_at_ns))
    assert seen == expected

    whole = join([tmp_path / f"share-{number + 1}" for number in range(SHARES)], tmp_path / "whole").path
    rows = pq.read_table(whole / "ledger.parquet").to_pylist()
    assert {row["fate"] for row in rows} == {"delivered"}
    assert len(rows) == sum(expected.values())
    figures = read_json(whole / "metrics.json")
    assert figures["wire_bytes_uplink"] > sum(len(payload) for _, payload in expected)
    for number in range(SHARES):  # each vehicle's bytes are those that its own share's capture saw
        own = set(map(vehicle_id, FleetShare(number + 1, SHARES).vehicles(FLEET.vehicles)))
        for name in ("wire.parquet", "wire_messages.parquet", "wire_categories.parquet"):
            assert of(own, whole / name) == of(own, tmp_path / f"share-{number + 1}" / name) != []
    assert [share["vehicles"] for share in figures["shares"]] == [3, 3, 2, 2]
    found = audit(whole)
    assert found.agrees, json.dumps(found.notes)
    # One that is missing: nobody knows what it sent.
    some = join([tmp_path / f"share-{number}" for number in (1, 2, 4)], tmp_path / "some").path
    figures = read_json(some / "metrics.json")
    assert (figures["delivered"], figures["unknown"], figures["lost"]) == (48, 12, 0)
