"""What the live reader says of the rows of `run.metrics`; without Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ivsim.runs import live_reader
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.live_reader import LiveReader


class Record:
    """A record of `run.metrics`."""

    def __init__(self, vehicle: str, window_start_s: int | None = None, **figures: int | None) -> None:
        row = {"vehicle_id": vehicle, "window_start_s": window_start_s, **figures}
        self.value = lambda: json.dumps(row).encode()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> LiveReader:
    monkeypatch.setattr(live_reader, "Consumer", lambda _: None)
    return LiveReader(KafkaAddress("127.0.0.1:1"))


def test_the_fleet_s_counts_are_those_of_its_run(reader: LiveReader) -> None:
    take: Any = reader._take
    take(Record("*", contained=16, given_up=4))
    take(Record("*", window_start_s=10, contained=None, given_up=None))
    take(Record("a", contained=8, given_up=0))
    assert (reader.contained(), reader.given_up()) == (16, 4)
    take(Record("*", contained=12, given_up=9))  # an epoch has been given up
    assert (reader.contained(), reader.given_up()) == (12, 9)
    assert reader.live()["contained"] == 12


def test_where_the_fleet_s_are_not_summed_up_its_vehicles_are(reader: LiveReader) -> None:
    take: Any = reader._take
    take(Record("*", contained=None, given_up=None))
    take(Record("a", contained=10, given_up=0))
    take(Record("b", contained=4, given_up=4))
    take(Record("b", window_start_s=10, contained=1, given_up=0))
    assert (reader.contained(), reader.given_up()) == (14, 4)


def test_what_is_no_row_is_passed_over(reader: LiveReader) -> None:
    record = Record("a")
    record.value = lambda: b"{"
    take: Any = reader._take
    take(record)
    assert (reader.contained(), reader.given_up(), reader.live()) == (0, 0, {})
