"""What the page is told while a run goes, of logs that are made up and without Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from ivsim.runs import live_publisher
from ivsim.runs.directory import RunDirectory
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.live_publisher import ROWS, LivePublisher
from schemas.topics import vehicle_id
from simulator.capture.counting import BEFORE_START, COUNTS
from simulator.capture.counting import RECORD as WIRE_RECORD
from simulator.capture.fields import DIRECTIONS
from simulator.capture.second_log import MAGIC
from simulator.emission_log import Kind
from simulator.emission_table import EVENT
from simulator.links.base import Condition, Conditions

START_NS = 1_800_000_000_000_000_000
WAIT_S = 30.0
START_S = START_NS // 1_000_000_000


class Sent:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[str, list[dict[str, Any]]]] = []

    def produce(self, topic: str, value: bytes) -> None:
        self.records.append((topic, json.loads(value)))

    def poll(self, _timeout_s: float) -> None:
        pass

    def flush(self, _timeout_s: float) -> None:
        pass

    def taken(self, topic: str) -> list[dict[str, Any]]:
        """Return the rows of a topic's records, and forget them."""
        found = [row for name, rows in self.records if name == topic for row in rows]
        self.records = [record for record in self.records if record[0] != topic]
        return found


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def publisher(directory: RunDirectory, **more: Any) -> tuple[LivePublisher, Sent]:
    """Return a publisher and where its records go."""
    sent = Sent()
    with mock.patch.object(live_publisher, "Producer", return_value=sent):
        return LivePublisher(directory, 1, KafkaAddress("127.0.0.1:1"), None, START_NS, **more), sent


def until(condition: Callable[[], Any]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_link_is_told_when_it_changes_and_never_again(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_publisher, "PERIOD_S", 0.01)
    slow, out = Condition(1e6, 20.0, 0.01), Condition(0.0, 20.0)
    steady, changed = (slow, Condition(None, 15.0)), (out, out)
    now: tuple[int, Conditions] = (0, {1: steady, 2: steady})
    looked = 0

    def conditions() -> tuple[int, Conditions]:
        nonlocal looked
        looked += 1
        return now

    made, sent = publisher(directory, conditions=conditions)
    with made:
        until(lambda: sent.records)
        told = sent.taken("run.link")
        now = (1, {1: steady, 2: changed})
        until(lambda: sent.records)
        told_again = sent.taken("run.link")
        before = looked
        until(lambda: looked > before + 2)
    assert [row["vehicle_id"] for row in told] == [vehicle_id(1), vehicle_id(2)]
    assert {k: v for k, v in told[0].items() if k != "vehicle_id"} == {
        "second": START_S, "uplink_rate_bps": 1e6, "downlink_rate_bps": None, "rtt_ms": 35.0,
        "uplink_loss_ratio": 0.01, "downlink_loss_ratio": 0.0,
    }  # fmt: skip
    (row,) = told_again
    assert (row["vehicle_id"], row["second"], row["uplink_rate_bps"]) == (vehicle_id(2), START_S + 1, 0.0)
    assert sent.taken("run.link") == []


def test_bytes_are_told_by_vehicle_second_and_direction(directory: RunDirectory) -> None:
    rows = np.zeros(4, WIRE_RECORD)
    rows["second"] = [BEFORE_START, 7, 7, 7]
    rows["vehicle"] = [1, 2, 0, 2]  # 0 is no vehicle
    rows["direction"] = [0, 1, 0, len(DIRECTIONS)]
    rows["counts"][:, COUNTS.index("ip_bytes")] = [40, 2**33, 5, 6]
    (directory.path / "wire.events").write_bytes(MAGIC + rows.tobytes())
    made, sent = publisher(directory)
    with made:
        pass
    told = [
        (row["vehicle_id"], row["second"] - START_S, row["direction"], row["wire_bytes"])
        for row in sent.taken("run.link")
    ]
    assert told == [(vehicle_id(1), -1, "uplink", 40), (vehicle_id(2), 7, "downlink", 2**33)]
    assert made.row()["wire kB"] == round((2**33 + 51) / 1_000, 1)


def test_nobody_is_told_of_a_link_that_nobody_looks_at(directory: RunDirectory) -> None:
    made, sent = publisher(directory)
    with made:
        pass
    assert sent.records == []


def test_what_was_sent_and_refused_is_told_by_second(directory: RunDirectory) -> None:
    events = np.zeros(5, EVENT)
    events["vehicle"] = 3
    events["at_ns"] = START_NS + np.array([0, 1, 2, 3, 10**9])
    events["kind"] = [Kind.EMITTED, Kind.EMITTED, Kind.REFUSED, Kind.ACKNOWLEDGED, Kind.UNSENT]
    directory.emission_log(0, 1).write_bytes(events.tobytes())
    made, sent = publisher(directory)
    with made:
        pass
    found = [
        (row["second"] - START_S, row["emitted"], row["unsent"], row["refused"])
        for row in sent.taken("run.emissions")
    ]
    assert found == [(0, 2, 0, 1), (1, 0, 1, 0)]
    assert made.row()["acknowledged"] == 1


@pytest.mark.parametrize(("contained", "emitted"), [(0, 1), (1, 1), (7, 7)])
def test_what_the_twins_contain_was_emitted(directory: RunDirectory, contained: int, emitted: int) -> None:
    """The logs are read once a second; meanwhile the twins may tell of more."""
    reader = mock.Mock(
        **{"live.return_value": {}, "given_up.return_value": 0, "contained.return_value": contained}
    )
    with mock.patch.object(live_publisher, "Producer", return_value=Sent()):
        made = LivePublisher(directory, 1, KafkaAddress("127.0.0.1:1"), reader, START_NS)
    event = np.zeros(1, EVENT)
    event["kind"], event["vehicle"], event["at_ns"] = Kind.EMITTED, 1, START_NS
    directory.emission_log().write_bytes(event.tobytes())
    made._copy()
    assert (made.row()["emitted"], made.row()["in twin"]) == (emitted, contained)


def test_a_second_of_a_large_fleet_is_a_few_records(directory: RunDirectory) -> None:
    """Each is far below the megabyte that Kafka takes, with the longest names and numbers."""
    vehicles = 2 * ROWS + 1
    events = np.zeros(vehicles, EVENT)
    events["vehicle"] = np.arange(1, vehicles + 1)
    events["at_ns"], events["kind"] = START_NS, Kind.EMITTED
    directory.emission_log(0, 1).write_bytes(events.tobytes())
    odd = Condition(123_456_789.123_456, 1_234.567_891_234_5, 0.123_456_789_123_456)
    made, sent = publisher(
        directory, conditions=lambda: (2**31, dict.fromkeys(range(60_000, 60_000 + ROWS), (odd, odd)))
    )
    with made:
        pass
    assert [len(rows) for topic, rows in sent.records if topic == "run.emissions"] == [ROWS, ROWS, 1]
    (roads,) = (rows for topic, rows in sent.records if topic == "run.link")
    assert 200 * ROWS < len(json.dumps(roads)) < 300_000
    assert len({row["vehicle_id"] for row in sent.taken("run.emissions")}) == vehicles
