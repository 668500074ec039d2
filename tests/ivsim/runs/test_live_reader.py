"""What the live reader says of the rows of `run.metrics`; without Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from unittest import mock

from ivsim.runs import live_reader
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.live_reader import LiveReader


class Record:
    """A record of `run.metrics`."""

    error = staticmethod(lambda: None)

    def __init__(self, vehicle: str, window_start_s: int | None = None, **figures: int | None) -> None:
        row = {"vehicle_id": vehicle, "window_start_s": window_start_s, **figures}
        self.value = lambda: json.dumps(row).encode()


class Topic:
    """Stands for a consumer of a topic that has these records."""

    topics: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def list_topics(self, timeout: float) -> Topic:
        return self

    def assign(self, partitions: object) -> None:
        pass

    def assignment(self) -> list[Any]:
        return []

    def position(self, partitions: list[Any]) -> list[Any]:
        return []

    def consume(self, count: int, timeout: float) -> Sequence[Record]:
        taken, self.records = self.records, ()
        return taken

    def close(self) -> None:
        pass


def read(*records: Record) -> LiveReader:
    """Return a reader that has read these."""
    with (
        mock.patch.object(live_reader, "Consumer", return_value=Topic(records)),
        LiveReader(KafkaAddress("127.0.0.1:1")) as reader,
    ):
        assert reader.final(30) is not None
    return reader


def test_the_fleet_s_counts_are_those_of_its_run() -> None:
    records = (
        Record("*", contained=16, given_up=4),
        Record("*", window_start_s=10, contained=None, given_up=None),
        Record("a", contained=8, given_up=0),
    )
    reader = read(*records)
    assert (reader.contained(), reader.given_up()) == (16, 4)
    reader = read(*records, Record("*", contained=12, given_up=9))  # an epoch has been given up
    assert (reader.contained(), reader.given_up()) == (12, 9)
    assert reader.live()["contained"] == 12


def test_where_the_fleet_s_are_not_summed_up_its_vehicles_are() -> None:
    reader = read(
        Record("*", contained=None, given_up=None),
        Record("a", contained=10, given_up=0),
        Record("b", contained=4, given_up=4),
        Record("b", window_start_s=10, contained=1, given_up=0),
    )
    assert (reader.contained(), reader.given_up()) == (14, 4)


def test_what_is_no_row_is_passed_over() -> None:
    record = Record("a")
    record.value = lambda: b"{"
    reader = read(record)
    assert (reader.contained(), reader.given_up(), reader.live()) == (0, 0, {})
