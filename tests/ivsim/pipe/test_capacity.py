"""The search of a platform's capacity: against made-up platforms of a known capacity, and a real Redis with its own tool."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ivsim import cli
from ivsim.search import Found
from ivsim.study.engines.pipe import capacity, capacity_series
from ivsim.study.engines.pipe.capacity import (
    BEHIND_MS,
    HOLD_S,
    Cell,
    Searched,
    Step,
    behind,
    bounds_of,
    search,
)
from ivsim.study.engines.pipe.capacity_series import HEAD, Asked, checked, page, rows, searches, why
from ivsim.study.engines.pipe.ledger import CONSUMED, FATES, LOST
from ivsim.testbed.process import NotReady, ProcessDied

CELL = Cell("pulsar", "cache", "b65k")
VALID = {"verdict": "valid", "causes": []}


class Queue:
    """Stands for the platforms: one server that takes `per_s` records each second, first come, first served."""

    def __init__(self, per_s: float, *, lost: int = 0, dies_above: float = math.inf) -> None:
        self.per_s, self.lost, self.dies_above = per_s, lost, dies_above
        self.rates: list[float] = []

    def break_in(self, options) -> None:
        assert options.rate is None

    def full_speed_per_s(self, options) -> float:
        assert options.rate is None
        return self.per_s * 0.9

    def measure(self, options):
        self.rates.append(options.rate)
        if options.rate > self.dies_above:
            raise ProcessDied("broker-0", -9, "")
        due = np.arange(int(options.rate * options.duration_s)) / options.rate
        ready = (
            np.maximum.accumulate(due - np.arange(due.size) / self.per_s)
            + (1 + np.arange(due.size)) / self.per_s
        )
        fate = np.full(due.size, FATES.index(CONSUMED))
        fate[due.size - self.lost :] = FATES.index(LOST)
        produced = SimpleNamespace(due_at_ns=np.round(due * 1e9).astype(np.int64))
        ledger = SimpleNamespace(
            produced=produced, received_at_ns=np.round(ready * 1e9).astype(np.int64), fate=fate
        )
        busy = dict.fromkeys(("producer_cpu_us", "consumer_cpu_us", "platform_cpu_us"), 100.0)
        figures = {**busy, "machine_busy_cores": 1.5, "validity": VALID}
        return SimpleNamespace(ledger=ledger, options=options, start_at_ns=0, figures=figures)


@pytest.fixture(autouse=True)
def _figures(request, monkeypatch):
    if "broker" not in request.keywords:
        monkeypatch.setattr(capacity, "figures_of", lambda measured: measured.figures)


def found_of(queue: Queue, cell: Cell = CELL) -> Searched:
    return search(cell, queue, None, lambda _what: None)


@pytest.mark.parametrize("per_s", [7.0, 400.0, 30_000.0])
def test_the_capacity_of_a_queue_is_found_to_the_resolution(per_s):
    found = found_of(Queue(per_s))
    assert found.error is None
    # A step ends `BEHIND_MS` behind at a rate of 1 + BEHIND_MS / HOLD_S of the capacity.
    most = per_s * (1 + BEHIND_MS / 1e3 / (HOLD_S - 0.5)) + 1
    assert per_s / (1 + capacity.RESOLUTION_RATIO) - 1 <= found.found.capacity <= most
    assert found.at_capacity.kind == "confirmation"
    assert found.at_capacity.verdict == "met"


def test_records_that_do_not_come_are_behind_however_fast_the_others_are():
    found = found_of(Queue(400.0, lost=1))
    assert found.found == Found(None, found.steps[0].rate, "missed")
    assert found.steps[0].why == "records due in the last second did not come"


def test_a_platform_that_dies_at_a_rate_does_not_carry_it():
    found = found_of(Queue(400.0, dies_above=200.0))
    assert 200 / 1.06 <= found.found.capacity <= 200
    assert found.found.verdict == "broke"
    assert any(one.why.startswith("broker-0") for one in found.steps)


def test_what_breaks_at_full_speed_has_no_result_and_says_why(monkeypatch):
    def hangs(_self, _options):
        raise NotReady("it hangs")

    monkeypatch.setattr(Queue, "break_in", hangs)
    found = found_of(Queue(400.0))
    assert (found.found, found.error) == (None, "it hangs")
    assert why(found) == "it hangs"


def test_only_the_records_due_in_the_last_second_count(monkeypatch):
    queue = Queue(1_000.0)
    measured = queue.measure(CELL.options(rate=100.0))
    early = measured.ledger.produced.due_at_ns < 5e9
    measured.ledger.received_at_ns[early] += 10**10
    assert behind(measured) == pytest.approx(1.0, abs=0.01)


def test_a_platform_in_memory_is_asked_for_no_more_than_it_has_room_for(monkeypatch):
    row = SimpleNamespace(room_bytes=lambda: 700 * 65_000 * HOLD_S)
    monkeypatch.setattr(capacity, "platform_named", lambda _name: row)
    assert bounds_of(CELL, 1_000.0).most == 700
    assert bounds_of(CELL, 100.0).most == 400
    assert bounds_of(CELL, 4_000.0).first == 700


def step(**cores: float) -> Step:
    return Step(
        "confirmation",
        400,
        "met",
        3.0,
        {"producer": 0.2, "consumer": 0.2, "platform": 0.3, "machine": 0.8} | cores,
        "",
    )


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        ({"producer": 0.97}, "the producer's process (0.97 cores) had no more to give"),
        ({"machine": 1e9}, "the machine was full"),
        ({}, "the platform waited (0.80 of"),
    ],
)
def test_what_a_capacity_ends_at_is_told_from_the_cores_that_were_busy(cores, words):
    found = Searched(CELL, 380.0, Found(400, 420, "missed"), 1_600, (step(**cores),), "its-tool", 800.0)
    assert why(found).startswith(words)


def test_what_broke_a_search_is_told_where_its_capacity_was_found_before():
    found = Searched(
        CELL, 380.0, Found(400, 420, "missed"), 1_600, (step(),), error="its-tool had not ended after 120 s"
    )
    assert why(found) == "its-tool had not ended after 120 s"


def test_a_capacity_that_nothing_ended_is_a_lower_bound_and_gaps_are_ratios():
    ended = Searched(CELL, 380.4, Found(400, 420, "missed"), 1_600, (step(),), "its-tool", 800.0)
    open_ = Searched(Cell("redis", "cache", "b1k"), 380.4, Found(400, None, None), 400, (step(),))
    nothing = Searched(Cell("kafka", "synced", "b1k"), error="it hangs")
    table = rows([ended, open_, nothing])
    assert [row[0] for row in table] == ["kafka", "pulsar", "redis"]
    assert all(len(row) == len(HEAD) for row in table)
    assert table[1][3:] == ("400", "380", "800", "2.0000")
    assert table[2][3] == "≥ 400"
    text = page(
        {"versions": {"kafka": "1"}, "asked": {"seed": 1}, "load_before": (0.1,)}, [ended, open_, nothing]
    )
    assert "it hangs" in text
    assert "pulsar: its own tool is on no package registry" in text
    assert "kafka-producer-perf-test" in text


def test_each_platform_is_started_once_for_a_durability():
    order = Asked(("kafka", "pulsar", "redis"), ("cache", "synced"), ("b1k", "b65k"), 3).order()
    assert len(set(order)) == len(order) == 12
    kinds = [(one.platform, one.durability) for one in order]
    assert len([now for now, before in zip(kinds, [None, *kinds], strict=False) if now != before]) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["null"], "PLATFORM 'null': allowed are kafka, pulsar, redis"),
        (["redis", "--durability", "ever"], "--durability 'ever': redis has cache, synced"),
        (["redis", "--record", "b2"], "--record 'b2': allowed are b500, b1k, b65k, b600k"),
        (["redis", "--seed", "-1"], "--seed"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_starts(
    tmp_path, capsys, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ivsim", "platform", "capacity", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
def test_a_redis_is_searched_beside_its_own_tool(tmp_path, monkeypatch):
    """A few short steps: whether one meets the level is the machine's to say, and not judged."""
    shorter = {
        "HOLD_S": 1.0,
        "WARMUP_S": 0.2,
        "TOOL_S": 0.5,
        "ATTEMPTS": 1,
        "REPETITIONS": 1,
        "RESOLUTION_RATIO": 0.9,
    }
    for name, value in shorter.items():
        monkeypatch.setattr(capacity, name, value)
    told = []
    asked = checked(Asked(["redis"], ["cache"], ["b600k"], 1))
    (found,) = searches(asked, tmp_path, lambda *now: told.append(now))
    assert found.error is None
    assert found.full_speed_per_s > 0
    assert found.steps[0].rate == round(found.full_speed_per_s / 4)
    assert found.tool == "redis-benchmark"
    assert found.tool_per_s > 10
    assert told[0] == (0, 1, "redis cache b600k: full speed")
    said = json.loads((tmp_path / capacity_series.FILE).read_text())
    capacity_per_s, failed_at_per_s, verdict = found.found
    assert said["searches"][0]["found"] == {
        "capacity": capacity_per_s,
        "failed_at": failed_at_per_s,
        "verdict": verdict,
    }
    assert (tmp_path / capacity_series.REPORT).read_text().startswith("# The highest rate")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["capacity.json", "logs", "report.md"]
