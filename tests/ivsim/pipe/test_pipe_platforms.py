"""Platforms over many measurements: one with processes is up at a time, and one that has died is started anew."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from ivsim.library.studies import begun
from ivsim.runs.validity import EXIT_INVALID
from ivsim.study.cells import Cell, Session, Task
from ivsim.study.engines.pipe import engine, measurement, session
from ivsim.study.engines.pipe.kills import Killed
from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named, redis
from ivsim.study.engines.pipe.platforms.base import LOOPBACK
from ivsim.study.engines.pipe.platforms.null import Null
from ivsim.study.engines.pipe.run import run
from ivsim.study.engines.pipe.session import Platforms
from ivsim.testbed.process import NotReady, ProcessDied
from schemas.errors import Refusal


@pytest.fixture
def up(monkeypatch):
    """Let every platform be files, and return the names of those that are open."""
    names, whole = [], Null.open

    def opened(row):
        @contextmanager
        def opens(record, work, brokers=1, host=LOOPBACK):
            with whole(Null(), record, work / row.name) as platform:
                names.append(row.name)
                yield platform
                names.remove(row.name)

        return opens

    for name in PLATFORMS:
        row = platform_named(name)
        monkeypatch.setattr(row, "open", opened(row), raising=False)
    return names


def test_one_with_processes_is_up_at_a_time_and_files_beside_it(run_record, tmp_path, up):
    with Platforms(run_record, tmp_path) as platforms:
        first = platforms.open(pipe_options({"platform": "kafka"}))
        assert platforms.open(pipe_options({"platform": "kafka"})) is first
        platforms.open(pipe_options({"platform": "null"}))
        assert up == ["kafka", "null"]
        platforms.open(pipe_options({"platform": "redis"}))
        assert up == ["null", "redis"]
        assert platforms.open(pipe_options({"platform": "kafka"})) is not first
        assert up == ["null", "kafka"]
    assert up == []


def test_a_study_is_refused_before_it_begins_for_the_platforms_of_its_cells_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(platform_named("pulsar"), "missing", lambda: "no Pulsar: get it", raising=False)
    monkeypatch.setattr(platform_named("kafka"), "missing", lambda: None, raising=False)
    with pytest.raises(Refusal, match="engine pipe: no Pulsar: get it"):
        begun("ingestion-platforms", tmp_path / "out", quick=True)
    assert list(tmp_path.iterdir()) == []
    begun("kafka-formats", tmp_path / "other", quick=True)


def test_one_that_has_died_is_started_anew_for_the_next_measurement(run_record, tmp_path, up, monkeypatch):
    class Dying:
        def __init__(self, *_, **__):
            pass

        def run(self):
            raise ProcessDied("broker", -9, "")

    monkeypatch.setattr(session, "Measurement", Dying)
    with Platforms(run_record, tmp_path) as platforms:
        first = platforms.open(pipe_options({"platform": "redis"}))
        with pytest.raises(ProcessDied):
            platforms.measure(pipe_options({"platform": "redis"}))
        assert up == []
        assert platforms.open(pipe_options({"platform": "redis"})) is not first


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({}, False),
        ({"answered": False}, True),
        ({"complete": False}, True),
        ({"killed": Killed("broker", 0, 1, 2)}, True),
        ({"killed": Killed("consumer", 0, 1, 2)}, False),
    ],
)
def test_one_that_owes_records_or_was_killed_is_started_anew(
    run_record, tmp_path, up, monkeypatch, change, anew
):
    """It lives, and serves no more, as a Pulsar whose bookie has died; or has a new process that is cold."""

    class Owing:
        def __init__(self, *_, **__):
            pass

        def run(self):
            ends = {"died": None, "killed": None, "answered": True, "complete": True}
            return SimpleNamespace(**ends | change)

    monkeypatch.setattr(session, "Measurement", Owing)
    with Platforms(run_record, tmp_path) as platforms:
        first = platforms.open(pipe_options({"platform": "redis"}))
        platforms.measure(pipe_options({"platform": "redis"}))
        assert up == ([] if anew else ["redis"])
        assert (platforms.open(pipe_options({"platform": "redis"})) is first) != anew


def test_a_server_with_one_durability_is_another_platform_for_the_other():
    keys = {
        name: {
            session.key_of(pipe_options({"platform": name, "durability": one})) for one in ("cache", "synced")
        }
        for name in ("kafka", "pulsar", "redis")
    }
    assert {name: len(one) for name, one in keys.items()} == {"kafka": 1, "pulsar": 2, "redis": 1}


@pytest.mark.broker
@pytest.mark.parametrize("phase", ["sending", "reading the rest"])
def test_a_platform_that_dies_leaves_the_account_of_what_was_sent(run_record, tmp_path, phase):
    asked = {"platform": "redis", "record": "b1k", "format": "raw", "different": 50, "warmup_s": 0.2}
    killed = []

    def tell(now, over_s, sent, received):
        if now == phase and over_s > 0.5 and not killed:
            (pid,) = platforms.open(options).platform.pids().values()
            os.kill(pid, signal.SIGKILL)
            killed.append((sent, received))

    options = pipe_options({**asked, "rate": 300.0, "duration_s": 1.0})
    with Platforms(run_record, tmp_path / "work") as platforms:
        found = platforms.measure(options, tell)
        figures = figures_of(found)
        # The next one has another server.
        assert figures_of(platforms.measure(options))["validity"]["verdict"] != "invalid"
    assert killed
    verdict, causes = figures["validity"]["verdict"], [one["words"] for one in figures["validity"]["causes"]]
    assert verdict == "invalid"
    assert re.match(r"redis-server was ended by SIGKILL \d\.\d s after the start", causes[0]), causes
    assert phase != "sending" or "consumers did not reach the ends of their partitions" in causes
    # Nobody knows what became of a record that was acknowledged and not read: it is neither lost nor consumed.
    assert sum(figures[fate] for fate in FATES) == figures["produced"] > 100
    assert figures["lost"] == figures["refused"] == 0
    assert 0 < figures["consumed"] <= figures["produced"]
    assert figures["stored_bytes"] is figures["platform_cpu_us"] is None


@pytest.mark.broker
@pytest.mark.parametrize("question", ["ends", "stored_bytes"])
def test_a_platform_that_dies_when_it_is_asked_is_no_riddle(run_record, tmp_path, monkeypatch, question):
    real = getattr(redis.Streams, question)

    def asked_of(streams, place):
        (pid,) = streams.pids().values()
        os.kill(pid, signal.SIGKILL)
        return real(streams, place)

    monkeypatch.setattr(redis.Streams, question, asked_of)
    asked = {"platform": "redis", "record": "b1k", "format": "raw", "different": 50, "warmup_s": 0.2}
    with Platforms(run_record, tmp_path / "work") as platforms:
        found = platforms.measure(pipe_options({**asked, "rate": 300.0, "duration_s": 0.6}))
    assert found.died is not None
    assert found.died.line == "redis-server was ended by SIGKILL"
    assert found.stored_bytes is None
    assert found.platform_cpu_s == {}


@pytest.mark.broker
def test_the_command_says_how_the_platform_died_and_keeps_its_ledger(tmp_path, monkeypatch):
    real = measurement.PlatformUsage.warm

    def warm(watched):
        real(watched)
        (pid,) = watched._opened.pids().values()
        os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(measurement.PlatformUsage, "warm", warm)
    asked = {
        "platform": "redis",
        "record": "b1k",
        "format": "raw",
        "rate": 300.0,
        "duration_s": 1.0,
        "warmup_s": 0.3,
    }
    outcome = run(pipe_options(asked), tmp_path / "out")
    assert outcome.exit_code == EXIT_INVALID
    assert outcome.metrics["validity"]["causes"][0]["words"].startswith("redis-server was ended by SIGKILL")
    fates = pq.read_table(tmp_path / "out" / "samples.parquet")["fate"].to_pylist()
    assert len(fates) == outcome.metrics["produced"] > 50
    assert set(fates) <= {"consumed", "unknown"}
    assert "was ended by SIGKILL" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.broker
def test_records_that_redis_has_no_memory_for_make_a_measurement_invalid(run_record, tmp_path, monkeypatch):
    monkeypatch.setattr(redis, "machine_bytes", lambda: 100 * 2**20)
    monkeypatch.setattr(redis, "PAYLOAD_SHARE", 10.0)
    asked = {"platform": "redis", "record": "b65k", "format": "raw", "content": "encoded", "different": 5}
    options = pipe_options({**asked, "duration_s": 2.0, "warmup_s": 0.2})
    with Platforms(run_record, tmp_path / "work") as platforms:
        found = platforms.measure(options)
    figures = figures_of(found)
    assert figures["validity"]["verdict"] == "invalid"
    cause = figures["validity"]["causes"][0]
    assert cause["name"] == "refused_records"
    assert re.match(r"[\d,]+ records were refused: OOM command not allowed", cause["words"]), cause
    # A broker that is killed refuses what it cannot take meanwhile: that is what was asked for.
    found.killed = Killed("broker", 0, found.start_at_ns, found.start_at_ns + 1)
    assert "refused_records" not in [one["name"] for one in figures_of(found)["validity"]["causes"]]


# Kafka's kill itself is held by tests/contract/test_platforms.py, and a kill's account by one platform.
NEEDS = {"kafka": [pytest.mark.kafka, pytest.mark.full], "redis": [pytest.mark.broker]}


@pytest.mark.parametrize("durability", ["synced", pytest.param("cache", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in NEEDS.items()])
def test_a_kill_of_the_platform_within_a_measurement_is_accounted_for(run_record, tmp_path, name, durability):
    asked = {
        "platform": name,
        "durability": durability,
        "record": "b1k",
        "format": "raw",
        "rate": 300.0,
        "duration_s": 6.0,
        "warmup_s": 1.0,
        "kill": "broker@2s",
        "different": 50,
        "partitions": 2,
    }
    with Platforms(run_record, tmp_path / "work") as platforms:
        figures = figures_of(platforms.measure(pipe_options(asked)))
    assert figures["produced"] == 1_800
    assert sum(figures[fate] for fate in FATES) == 1_800
    # The operating system outlives the platform, and keeps what it was handed.
    assert figures["acknowledged"] == figures["consumed"] == 1_800
    assert figures["acknowledged_lost"] == figures["lost"] == figures["unknown"] == 0
    assert 0 < figures["recovery_s"] < 60
    assert 0 < figures["outage_s"] < 60


def test_a_platform_that_was_just_started_works_once_before_it_is_measured(monkeypatch, tmp_path):
    ran = []

    class Noted:
        def __init__(self, options, *_arguments, **_named):
            self._options = options

        def run(self):
            ran.append((self._options.brokers, self._options.duration_s, self._options.kill))
            return SimpleNamespace(died=None, killed=None, answered=True, complete=True)

    row = SimpleNamespace(
        has_brokers=True, restarts_to_sync=False, open=lambda *_: nullcontext(), platform="kafka"
    )
    monkeypatch.setattr(session, "Measurement", Noted)
    monkeypatch.setattr(session, "platform_named", lambda _name: row)
    monkeypatch.setattr(Platforms, "_forks_for", lambda *_: None)
    one = pipe_options({"rate": 100.0, "kill": "consumer@3s", "duration_s": 4.0})
    three = one.model_copy(update={"brokers": 3})
    with Platforms(None, tmp_path) as platforms:
        for options in (one, one, three, one):
            platforms.break_in(options)
            platforms.measure(options)
    own, dropped = (4.0, "consumer@3s"), (session.BREAK_IN_S, None)
    assert ran == [(1, *dropped), (1, *own), (1, *own), (3, *dropped), (3, *own), (1, *dropped), (1, *own)]


def test_a_share_of_a_capacity_that_was_not_measured_validly_is_refused(monkeypatch, tmp_path):
    asked = []

    def measure(_self, options, *_arguments, **_named):
        asked.append((options.rate, options.load_ratio, options.kill))
        return SimpleNamespace(capacity_per_s=None)

    speed = {"records_per_s": 800.0, "validity": {"verdict": "valid", "causes": []}}
    monkeypatch.setattr(Platforms, "_measure", measure)
    monkeypatch.setattr(session, "figures_of", lambda _found: speed)
    half = pipe_options({"load_ratio": 0.5, "kill": "consumer@3s", "duration_s": 4.0})
    platforms = Platforms(None, tmp_path)
    assert platforms.measure(half).capacity_per_s == 800.0
    assert asked == [(None, None, None), (400.0, 0.5, "consumer@3s")]
    speed["validity"] = {"verdict": "degraded", "causes": [{"words": "consumers did not reach the ends"}]}
    with pytest.raises(NotReady, match="at full speed the measurement is degraded: consumers did not reach"):
        platforms.measure(half)
    speed |= {"records_per_s": 0.0, "validity": {"verdict": "valid", "causes": []}}
    with pytest.raises(NotReady, match="nothing came through"):
        platforms.measure(half)
    assert len(asked) == 4


def test_a_measurement_that_is_invalid_fails_its_cell_and_keeps_no_figure(monkeypatch, tmp_path):
    options = pipe_options({"rate": 100.0, "duration_s": 4.0})
    task = Task(Cell("one", "", {}, options), 1)
    figures = {"records_per_s": 1.0, "validity": {"verdict": "degraded", "causes": [{"words": "late"}]}}
    for name in ("write_samples", "write_link", "write_decisions"):
        monkeypatch.setattr(engine, name, lambda *_: None)
    monkeypatch.setattr(engine, "figures_of", lambda _found: figures)
    platforms = SimpleNamespace(break_in=lambda _: None, measure=lambda *_: None)
    opened, where = engine.OpenPipe(platforms), SimpleNamespace(begin=lambda _: tmp_path)
    (degraded,) = opened.measure(Session((task,)), where, lambda _: None)
    assert (degraded.figures, degraded.failure) == (figures, None)
    figures["validity"] = {"verdict": "invalid", "causes": [{"words": "3 arrivals"}, {"words": "1 damaged"}]}
    (invalid,) = opened.measure(Session((task,)), where, lambda _: None)
    assert invalid == (task, {}, "invalid: 3 arrivals; 1 damaged", True)
