"""What Redis' append-only file holds, told from what Redis still keeps back: its answers are made up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ivsim.study.engines.pipe.platforms import redis as module
from ivsim.study.engines.pipe.platforms.redis import Streams
from ivsim.testbed.process import NotReady


class Slow:
    """A Redis whose disk takes its time: what it was given is in its buffer for some answers, and then in its file."""

    def __init__(self, given: int, answers: float) -> None:
        self.given, self.answers = given, answers

    def info(self, section: str) -> dict[str, int]:
        assert section == "persistence"
        self.answers -= 1
        held = self.given if self.answers >= 0 else 0
        return {"aof_current_size": self.given - held, "aof_buffer_length": held, "aof_rewrites": 0}

    def __getattr__(self, name: str):
        return lambda *values, **words: None


def test_what_redis_holds_back_is_waited_for():
    slow = Slow(0, 0)
    streams = Streams(SimpleNamespace(host="127.0.0.1", port=1), slow)
    place = streams.place("p", {"partitions": 1})
    slow.given, slow.answers = 50_000, 3
    assert streams.stored_bytes(place) == 50_000


def test_a_disk_that_stands_still_is_said(monkeypatch):
    slow = Slow(0, 0)
    streams = Streams(SimpleNamespace(host="127.0.0.1", port=1), slow)
    place = streams.place("p", {"partitions": 1})
    slow.given, slow.answers = 50_000, float("inf")
    monkeypatch.setattr(module, "WRITE_S", 0.05)
    with pytest.raises(NotReady, match=r"did not write its append-only file within 0.05 s"):
        streams.stored_bytes(place)
