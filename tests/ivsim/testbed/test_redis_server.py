"""Our own Redis: what it is told, what it keeps, what it refuses, and that nothing of it stays."""

from __future__ import annotations

import socket

import pytest

from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms.redis import Streams
from ivsim.study.engines.pipe.platforms.redis_clients import client, receiver, sender
from ivsim.testbed import redis as module
from ivsim.testbed.programs import where
from ivsim.testbed.redis import KIND, RedisServer, answers
from ivsim.testbed.registry import RunRecord, started_at_ticks
from schemas.errors import Refusal

pytestmark = pytest.mark.broker

SETTINGS = pipe_options({"platform": "redis", "partitions": 1}).model_dump(mode="json")


def test_it_answers_at_once_on_loopback_alone_and_leaves_nothing(run_record: RunRecord) -> None:
    with RedisServer(run_record) as server, client(server.host, server.port) as asked:
        assert answers(server.host, server.port)
        assert asked.config_get("appendonly") == {b"appendonly": b"yes"} or asked.config_get(
            "appendonly"
        ) == {"appendonly": "yes"}
        pid, port = server.process.pid, server.port
    assert started_at_ticks(pid) is None
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)
    assert not (run_record.directory / "redis-server").exists()


def test_a_stop_and_a_kill_keep_what_it_was_given(run_record: RunRecord) -> None:
    with RedisServer(run_record) as server:
        with client(server.host, server.port) as asked:
            asked.xadd("kept", {"v": b"1"})
        server.restart()
        with client(server.host, server.port) as asked:
            asked.xadd("kept", {"v": b"2"})
        server.process.kill()
        server.restart()
        with client(server.host, server.port) as asked:
            assert asked.xlen("kept") == 2


@pytest.mark.parametrize(("durability", "fsync"), [("cache", "everysec"), ("synced", "always")])
def test_the_durability_holds_after_a_kill_too(run_record: RunRecord, durability: str, fsync: str) -> None:
    with RedisServer(run_record) as server, client(server.host, server.port) as asked:
        Streams(server, asked).place("p", {**SETTINGS, "durability": durability})
        server.process.kill()
        server.restart()
        with client(server.host, server.port) as again:
            assert fsync in map(str, again.config_get("appendfsync").values())


def test_full_memory_refuses_records_and_evicts_none(run_record: RunRecord) -> None:
    reports: dict[int, str | None] = {}
    with RedisServer(run_record, memory_mib=8) as server, client(server.host, server.port) as asked:
        streams = Streams(server, asked)
        place = streams.place("full", SETTINGS)
        writer = sender(place, SETTINGS, 0, reports.__setitem__)
        writer.open()
        for number in range(1, 201):
            writer.send(number, None, bytes(100_000), 0)
        assert writer.flush(30) == 0
        writer.close()
        kept = [number for number, problem in reports.items() if problem is None]
        refused = {problem for problem in reports.values() if problem is not None}
        assert len(reports) == 200
        # Redis counts what its clients have queued as memory too: once that is gone a record may fit again.
        assert kept[:10] == list(range(1, 11))
        assert 10 < len(kept) < 120
        assert refused
        assert all(problem.startswith("OOM command not allowed") for problem in refused)
        reader = receiver(place, SETTINGS, [0])
        reader.open()
        found = [number for _ in range(len(kept)) for number in reader.poll().number]
        reader.close()
        assert found == kept


def test_the_file_is_empty_again_after_a_measurement(run_record: RunRecord) -> None:
    with RedisServer(run_record) as server, client(server.host, server.port) as asked:
        streams = Streams(server, asked)
        for turn in range(3):
            place = streams.place(f"turn-{turn}", SETTINGS)
            for _ in range(50):
                asked.xadd(f"turn-{turn}:0", {"n": 1, "v": bytes(1_000)})
            assert 50_000 < streams.stored_bytes(place) < 60_000
            streams.clear(place)
            assert asked.dbsize() == 0
            assert asked.info("persistence")["aof_current_size"] < 1_000


def test_where_it_is_not_installed_it_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert where("redis-server") is not None
    assert KIND.version() is not None
    monkeypatch.setattr(module, "NAME", "no-such-redis")
    assert KIND.version() is None
    with pytest.raises(Refusal, match="no no-such-redis found"):
        KIND.find()
