"""A fleet in four shares, each a run of its own in a network of its own, on one broker: what they sent together, and the result."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pyarrow.parquet as pq
import pytest

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

SHARES = 4
FLEET = Scenario(vehicles=10, interval_s=1.0, duration_s=6.0, seed=5)
# Until all runs are ready, on two cores with other work.
AHEAD_S = 60
ENDS_S = 240.0


@pytest.fixture
def networks(run_record: RunRecord) -> Iterator[tuple[str, list[str]]]:
    """Yield a namespace of the broker's, and one for each share on a wire of its own to it (addresses of RFC 5737)."""
    with ExitStack() as stack:
        names = [f"ivsim-{run_record.run_id}-{end}" for end in ("hub", *map(str, range(SHARES)))]
        for name in names:
            run_record.namespace(name)
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
            ip("-n", name, "link", "set", "lo", "up")
        hub, *shares = names
        for number, name in enumerate(shares):
            ip(
                *("-n", hub, "link", "add", f"to-{number}", "type", "veth"),
                *("peer", "name", "hub", "netns", name),
            )
            for namespace, device, host in ((hub, f"to-{number}", 1), (name, "hub", 2)):
                ip("-n", namespace, "address", "add", f"198.51.100.{4 * number + host}/30", "dev", device)
                ip("-n", namespace, "link", "set", device, "up")
        yield hub, shares


def of(vehicles: set[str], path: Path) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path).to_pylist() if row["vehicle_id"] in vehicles]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def test_four_shares_send_the_fleet_and_their_results_are_the_fleets(
    networks: tuple[str, list[str]], run_record: RunRecord, tmp_path: Path
) -> None:
    hub, shares = networks
    seen: Counter[tuple[str, bytes]] = Counter()
    start_at = (datetime.now(UTC) + timedelta(seconds=AHEAD_S)).replace(microsecond=0)
    with MosquittoServer(run_record, host="0.0.0.0", namespace=hub, name="theirs") as broker:
        listener = paho.Client(paho.CallbackAPIVersion.VERSION2)
        marked = threading.Event()
        listener.message_callback_add("mark", lambda *_: marked.set())
        listener.on_message = lambda _client, _data, message: seen.update(
            [(message.topic.split("/")[1], message.payload)]
        )
        with inside(hub):
            listener.connect("198.51.100.1", broker.port)
        listener.subscribe([("vehicles/#", 1), ("mark", 1)])
        listener.loop_start()
        runs = [
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", name, sys.executable, "-m", "ivsim.cli", "load"),
                    *("--share", f"{number + 1}/{SHARES}", "--start-at", start_at.isoformat()),
                    *("--target", f"mqtt://198.51.100.{4 * number + 1}:{broker.port}"),
                    *("--target-consent", f"198.51.100.{4 * number + 1}", "--topology", "peer"),
                    *("--link", "direct", "--stage", "6s:10", "--rate", "1", "--seed", "5"),
                    *("--loss-timeout", "10", "--output", str(tmp_path / f"share-{number + 1}")),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number, name in enumerate(shares)
        ]
        try:
            told = [run.communicate(timeout=ENDS_S)[0] for run in runs]
        finally:
            for run in runs:
                run.kill()
        assert [run.returncode for run in runs] == [0] * SHARES, told
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
