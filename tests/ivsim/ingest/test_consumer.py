"""The consumer: each message counted once, what names none left out, and an end that is the platform's, or is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from gateways.receive_log import ReceiveLog, to_table
from ivsim.ingest import process
from ivsim.ingest.process import Consumer
from ivsim.ingest.receiver import Taken


class Receiver:
    """Gives some records a call, and says that it has more as often as told."""

    def __init__(self, calls: Iterable[Sequence[Taken]], behind: int = 0) -> None:
        self._calls = list(calls)
        self._behind = behind
        self.closed = False

    def take(self, timeout_s: float) -> Sequence[Taken]:
        return self._calls.pop(0) if self._calls else ()

    def behind(self) -> bool:
        self._behind -= 1
        return self._behind >= 0

    def close(self) -> None:
        self.closed = True


def taken(*numbers: int, key: bytes = b"V1", epoch: bytes = b"1") -> list[Taken]:
    return [Taken(key, epoch, b"%d" % number) for number in numbers]


def consumed(tmp_path: Path, receiver: Receiver) -> tuple[Consumer, bool, list[tuple[str, int, int]]]:
    """Return the consumer, whether it came to the end, and what it noted."""
    log = ReceiveLog(tmp_path / "consumed-0.events")
    consumer = Consumer(receiver, log)
    consumer.stop()
    complete = consumer.run()
    log.close()
    rows = to_table(tmp_path / "consumed-0.events").to_pylist()
    return consumer, complete, [(row["vehicle_id"], row["epoch"], row["sequence"]) for row in rows]


def test_each_message_counts_once_and_is_noted_as_often_as_it_came(tmp_path: Path) -> None:
    calls = [taken(1, 2, 4), taken(2, 3), taken(1, epoch=b"2"), taken(1, key=b"V2")]
    consumer, complete, noted = consumed(tmp_path, Receiver(calls))
    assert complete
    assert consumer.figures() == {"records": 7, "distinct": 6, "unreadable": 0}
    assert noted == [
        *(("V1", 1, number) for number in (1, 2, 4, 2, 3)),
        ("V1", 2, 1),
        ("V2", 1, 1),
    ]


@pytest.mark.parametrize(
    "one",
    [
        Taken(b"", b"1", b"1"),
        Taken(b"x" * 33, b"1", b"1"),
        Taken(b"V1", b"", b"1"),
        Taken(b"V1", b"-1", b"1"),
        Taken(b"V1", b"4294967296", b"1"),
        Taken(b"V1", b"1", b"0"),
        Taken(b"V1", b"1", b"9223372036854775808"),
        Taken(b"V1", b"1", b"one"),
    ],
)
def test_what_names_no_message_is_counted_and_stops_nothing(tmp_path: Path, one: Taken) -> None:
    consumer, complete, noted = consumed(tmp_path, Receiver([[one], taken(1)]))
    assert complete
    assert (consumer.records, consumer.unreadable) == (2, 1)
    assert noted == [("V1", 1, 1)]


def test_a_silence_is_no_end_while_the_platform_has_more(tmp_path: Path) -> None:
    receiver = Receiver([taken(1), (), taken(2), ()], behind=1)
    consumer, complete, _ = consumed(tmp_path, receiver)
    assert complete
    assert consumer.distinct == 2


def test_an_end_that_does_not_come_in_time_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_S", 0.05)
    _, complete, noted = consumed(tmp_path, Receiver([taken(1)], behind=1_000_000_000))
    assert not complete
    assert noted == [("V1", 1, 1)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"platform": "rabbit"}, "platform: Value error, 'rabbit': allowed are kafka, redis, pulsar"),
        ({"speed": 1}, "speed: Extra inputs are not permitted"),
    ],
)
def test_what_it_is_told_is_checked(tmp_path: Path, words: dict[str, object], says: str) -> None:
    path = tmp_path / "consumer.json"
    told = {"platform": "redis", "bootstrap": "127.0.0.1:1", "topic": "t", "partitions": 1, "log": "l"}
    path.write_text(json.dumps(told | words))
    command = [sys.executable, "-m", "ivsim.ingest.process", str(path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{path}: {says}")
    assert json.loads(done.stdout)["event"] == "error"
