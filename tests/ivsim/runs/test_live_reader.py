"""What the live reader counts of the twins' records; without Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from ivsim.runs import live_reader
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.live_reader import LiveReader


class Record:
    """A record of `twin.state`."""

    def __init__(self, vehicle: str, **counters: int) -> None:
        self.topic = lambda: "twin.state"
        self.key = vehicle.encode
        self.headers = lambda: [(name, b"%d" % value) for name, value in counters.items()]


def test_what_a_twin_has_given_up_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_reader, "Consumer", lambda _: None)
    reader = LiveReader(KafkaAddress("127.0.0.1:1"))
    take: Any = reader._take
    take(Record("a", messages=10, duplicates=2, given_up=0))
    take(Record("b", messages=9, duplicates=1, given_up=4))
    assert (reader.contained(), reader.given_up()) == (8 + 4, 4)
    take(Record("b", messages=12, duplicates=1, given_up=7))
    assert (reader.contained(), reader.given_up()) == (8 + 4, 7)
    take(Record("b"))  # a tombstone: the twin has ended, what it had contained has not been undone
    assert (reader.contained(), reader.given_up()) == (8 + 4, 7)
