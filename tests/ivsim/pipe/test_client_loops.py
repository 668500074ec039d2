"""The engine `clients`: its loops over files and over a real Kafka, its settings, and what it refuses."""

from __future__ import annotations

import time
from array import array
from types import SimpleNamespace

import pytest

from ivsim.study.cells import Cell, Session, Task
from ivsim.study.engines.base import engine_named
from ivsim.study.engines.pipe.client_loops import loops
from ivsim.study.engines.pipe.client_loops.metrics import CLIENT_METRICS, latencies
from ivsim.study.engines.pipe.client_loops.options import (
    DEFAULTS,
    SETTINGS,
    client_options,
    sender_settings,
    unobeyed,
)
from ivsim.study.engines.pipe.client_loops.usage import Usage
from ivsim.study.engines.pipe.platforms import PLATFORMS, null, platform_named
from ivsim.study.engines.pipe.platforms.base import TUNING, Arrivals, Full
from ivsim.study.engines.pipe.platforms.kafka_clients import consumer_settings, producer_settings
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal

KAFKA = pytest.param("kafka", marks=pytest.mark.kafka)
LIBRARIES = [name for name in PLATFORMS if name.startswith("kafka-")]


class Results:
    """Where an engine's files go in a test."""

    def __init__(self, path):
        self.path = path

    def begin(self, task):
        directory = self.path / task.cell.name / str(task.repetition)
        directory.mkdir(parents=True)
        return directory


def cells_for(client, **axes):
    engine = engine_named("clients")
    found = []
    for number, values in enumerate([{"client": client} | one for one in axes["each"]]):
        checked = engine.checked({"messages": 300, "bytes": 100, "seed": 1, "warmup_messages": 50}, values)
        found.append(Cell(f"cell-{number}", "", values, checked.options))
    return found


def measured(tmp_path, cells):
    engine = engine_named("clients")
    results = Results(tmp_path / "results")
    sessions = [Session(tuple(Task(cell, 1) for cell in one)) for one in engine.sessions(cells, [])]
    with engine.open(tmp_path / "work", results, sessions) as opened:
        return {
            outcome.task.cell.name: outcome
            for session in sessions
            for outcome in opened.measure(session, results, lambda _left: None)
        }


EACH = [
    *(
        {"loop": loop, "settings": settings}
        for loop in ("stream", "burst", "single")
        for settings in ("neutral", "warm")
    ),
    {"loop": "stream", "settings": "document"},
    {"loop": "burst", "settings": "document"},
    {"loop": "stream", "settings": "document", "process": "new"},
]

OF_LIBRARIES = [{"path": "bare"}, {"loop": "burst", "settings": "document"}, {"settings": DEFAULTS}]


@pytest.mark.parametrize(
    "client", ["null", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.full])]
)
def test_every_loop_gets_back_what_it_sent(client, tmp_path):
    each = [
        *EACH,
        *([{"loop": "stream", "path": "bare"}, {"settings": DEFAULTS}] if client == "kafka" else []),
        # At the same broker, each with what only it does.
        *(
            {"client": library, **one}
            for library in (LIBRARIES if client == "kafka" else [])
            for one in OF_LIBRARIES
        ),
    ]
    cells = cells_for(client, each=each)
    outcomes = measured(tmp_path, cells)
    for cell in cells:
        outcome = outcomes[cell.name]
        assert outcome.failure is None, (cell.values, outcome.failure)
        assert set(outcome.figures) <= set(CLIENT_METRICS)
        options = cell.options
        lacking = engine_named("clients").unmeasurable(cell, "produce_ms")
        assert (outcome.figures.get("produce_ms") is None) == (lacking is not None)
        if options.path == "bare":
            assert outcome.figures["produce_ms"] > 0
            continue
        assert (outcome.figures["missing"], outcome.figures["duplicates"], outcome.figures["wrong"]) == (
            0,
            0,
            0,
        )
        if options.loop == "stream":
            assert outcome.figures["consume_ms"] >= outcome.figures["consume_span_ms"] >= 0
            assert outcome.figures["latency_mean_ms"] is None
        else:
            assert outcome.figures["latency_p99_ms"] >= outcome.figures["latency_p50_ms"] > 0
            assert (tmp_path / "results" / cell.name / "1" / "latencies.parquet").is_file()
        assert ("process_ms" in outcome.figures) == (options.process == "new")


def work(tmp_path, **more):
    settings = sender_settings(client_options({"client": "null"}))
    with (
        RunRecord(f"c{time.time_ns()}", tmp_path) as record,
        platform_named("null").open(record, tmp_path) as platform,
    ):
        found = {
            "module": null,
            "place": platform.place("here", settings),
            "settings": settings,
            "messages": 100,
            "warmup": 0,
            "values": loops.made_values(1, 50, 100),
            "usage": Usage([]),
            **more,
        }
        yield loops.Work(**found)


class Spoiled:
    """A receiver that gives back what another would, spoiled."""

    def __init__(self, receiver, spoil):
        self._receiver, self._spoil = receiver, spoil

    def __getattr__(self, name):
        return getattr(self._receiver, name)

    def poll(self):
        return self._spoil(self._receiver.poll())


def spoiled(spoil):
    return SimpleNamespace(sender=null.sender, receiver=lambda *given: Spoiled(null.receiver(*given), spoil))


def first_changed(found):
    return found._replace(value=[bytes(50), *found.value[1:]]) if found.number else found


def last_twice(found):
    return Arrivals(*([*column, *column[-1:]] for column in found))


def first_gone(found):
    return Arrivals(*(column[1:] for column in found))


@pytest.mark.parametrize(
    ("spoil", "figure"), [(first_changed, "wrong"), (last_twice, "duplicates"), (first_gone, "missing")]
)
def test_content_is_compared_in_every_loop(spoil, figure, tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "QUIET_S", 0.3)
    for number, loop in enumerate((loops.stream, loops.burst)):
        for one in work(tmp_path / str(number), module=spoiled(spoil)):
            found = loop(one).figures
            assert found[figure] > 0, loop
            if loop is loops.stream and figure == "missing":
                assert found["consume_ms"] is None


def test_a_full_sender_is_asked_again(tmp_path):
    refused = []

    class Small(null.FileSender):
        def send(self, number, key, value, due_at_ns):
            if number % 7 == 0 and number not in refused:
                refused.append(number)
                raise Full
            super().send(number, key, value, due_at_ns)

    module = SimpleNamespace(
        sender=lambda place, _s, index, report: Small(place, index, report), receiver=null.receiver
    )
    for one in work(tmp_path, module=module):
        assert loops.stream(one).figures["missing"] == 0
        assert len(refused) == 100 // 7


def test_a_reader_that_fails_ends_the_burst(tmp_path):
    def broken(*_given):
        raise OSError("no such broker")

    for one in work(tmp_path, module=SimpleNamespace(sender=null.sender, receiver=broken)):
        with pytest.raises(OSError, match="no such broker"):
            loops.burst(one)


def test_values_differ_and_take_a_bounded_amount():
    assert len(set(loops.made_values(1, 100, 1_000))) == 1_000
    assert loops.made_values(1, 100, 3) == loops.made_values(1, 100, 3) != loops.made_values(2, 100, 3)
    assert len(loops.made_values(1, 100_000, 10_000)) * 100_000 <= loops.KEPT_BYTES


def test_latencies_leave_out_what_never_came():
    found = latencies(array("q", [0, 2_000_000, 4_000_000]))
    assert found == {"latency_mean_ms": 3.0, "latency_p50_ms": 2.0, "latency_p99_ms": 4.0}
    assert latencies(array("q", [0, 0]))["latency_mean_ms"] is None


@pytest.mark.parametrize("settings", SETTINGS)
def test_named_settings_reach_librdkafka(settings):
    options = client_options({"client": "kafka", "settings": settings, "bytes": 100})
    assert unobeyed(options) == []
    told = sender_settings(options)
    place = {"bootstrap": "127.0.0.1:1", "topic": "t"}
    producer, consumer = producer_settings(place, told), consumer_settings(place, told)
    wanted = {
        "document": ("0", 100.0, 1_000_000, 100_000, None),
        "document-capped": ("0", 100.0, 1_000_000, 100_000, 1_100),
        "defaults": ("all", 5.0, 1_000_000, 1, None),
        "neutral": ("1", 5.0, 5, 1, None),
        "warm": ("1", 5.0, 5, 1, None),
    }[settings]
    assert (
        producer["acks"],
        producer["linger.ms"],
        producer["max.in.flight.requests.per.connection"],
        consumer["fetch.min.bytes"],
        producer.get("message.max.bytes"),
    ) == wanted
    assert producer["enable.idempotence"] is False


def test_what_a_client_has_no_setting_for_is_named_and_not_sent():
    options = client_options({"client": "null", "settings": "document"})
    assert {"acks", "linger_ms", "in_flight"} <= set(unobeyed(options))
    assert sender_settings(options)["tuning"] == {}


def test_rows_say_tuning_that_exists():
    for name in PLATFORMS:
        row = platform_named(name)
        assert row.tuning <= set(TUNING)
        assert set(row.defaults or {}) <= set(row.tuning) | set(row.settings)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"client": "carrier-pigeon"}, "client 'carrier-pigeon': allowed are kafka"),
        ({"client": "null", "settings": "defaults"}, "settings defaults: client null does not say"),
        ({"client": "null", "loop": "burst", "path": "bare"}, "path bare: with loop stream alone"),
        ({"client": "null", "settings": "fast"}, "settings: "),
        ({"client": "kafka", "bytes": 900_001}, "bytes: "),
        ({"client": "null", "hurry": True}, "hurry: "),
    ],
)
def test_refused_by_name(given, words):
    with pytest.raises(Refusal) as caught:
        engine_named("clients").checked({}, given)
    assert str(caught.value).startswith(words)


def test_a_warm_up_without_effect_is_said():
    engine = engine_named("clients")
    assert "warmup_messages" in engine.checked({"warmup_messages": 5}, {"client": "null"}).idle
    assert not engine.checked({"warmup_messages": 5}, {"client": "null", "settings": "warm"}).idle


def test_clients_of_one_workload_share_a_session():
    cells = [
        cell
        for client in ("null", "kafka")
        for cell in cells_for(client, each=[{"loop": "stream"}, {"loop": "burst"}])
    ]
    found = engine_named("clients").sessions(cells, [])
    assert [len(one) for one in found] == [2, 2]
    assert all({cell.options.client for cell in one} == {"null", "kafka"} for one in found)
