"""Which limits the link of the control study leaves room, and the simulated connection that says so, against formulas."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateways.batching import rules
from gateways.batching.batcher import BatchSetting
from gateways.batching.loss import tcp_bytes_per_s
from gateways.batching.rules import Bounds, smallest_limit_ms
from ivsim.papers.reactive_batching import control_sections
from ivsim.papers.reactive_batching.lossy_path import Connection, Events, Path
from ivsim.papers.reactive_batching.reachable import (
    SEGMENT_BYTES,
    Link,
    Load,
    answers,
    known,
    smallest_limits_ms,
)
from ivsim.papers.reactive_batching.report import CONTROL
from ivsim.study.catalogue import study_named
from ivsim.study.cells import DONE, Kept, Task
from ivsim.study.engines.pipe.session import DECISIONS, LINK
from ivsim.study.model import cells_of
from ivsim.study.results import CellResult
from schemas.errors import Refusal
from simulator.traces import Trace

REPETITIONS = (1, 2, 3)
BOUNDS = Bounds(BatchSetting(10, 100.0), 1_000)


def steady(rtt_ms, loss_ratio):
    return Trace(np.array([0.0]), rtt_ms=np.array([rtt_ms]), loss_ratio=np.array([loss_ratio]), source="here")


def acknowledged(path, segments, until_s=1e9):
    """Return when each segment of one write at 0 s had been acknowledged with all before it."""
    events, found = Events(), []
    connection = Connection(events, path, lambda now_s, count: found.extend([now_s] * (count - len(found))))
    events.at(0.0, lambda now_s: connection.write(segments, now_s))
    events.run()
    return [one for one in found if one <= until_s]


class Dropping(Path):
    """Loses the sendings of these numbers, from 0."""

    def __init__(self, rtt_ms, lost):
        super().__init__(steady(rtt_ms, 0.0), None, np.random.default_rng(1))
        self._sent, self._lost = 0, lost

    def loses(self, now_s):
        self._sent += 1
        return self._sent - 1 in self._lost


def test_without_loss_everything_is_acknowledged_after_a_round_trip():
    assert acknowledged(Dropping(30.0, set()), 10) == [pytest.approx(0.03)] * 10
    # A window of ten that grows by one for each acknowledgement.
    assert acknowledged(Dropping(30.0, set()), 30) == [pytest.approx(0.03)] * 10 + [pytest.approx(0.06)] * 20


def test_a_loss_that_a_later_segment_tells_costs_one_more_round_trip():
    assert acknowledged(Dropping(30.0, {0}), 2) == [pytest.approx(0.06)] * 2


def test_a_loss_that_nothing_tells_waits_for_the_timer_which_doubles():
    assert acknowledged(Dropping(30.0, {0}), 1) == [pytest.approx(1.03)]
    assert acknowledged(Dropping(30.0, {0, 1}), 1) == [pytest.approx(3.03)]
    # Once a round trip is known the timer is 200 ms and that.
    events, found = Events(), []
    connection = Connection(events, Dropping(30.0, {1}), lambda now_s, count: found.append((count, now_s)))
    events.at(0.0, lambda now_s: connection.write(1, now_s))
    events.at(1.0, lambda now_s: connection.write(1, now_s))
    events.run()
    # Of a single segment the probe of its tail waits for two round trips and 200 ms, and so the timer is first.
    assert found == [(1, pytest.approx(0.03)), (2, pytest.approx(1.0 + 0.03 + 0.2 + 0.03))]


def test_full_load_is_carried_as_fast_as_the_formula_has_it():
    loss, segments = 0.02, 20_000
    found = acknowledged(Path(steady(30.0, loss), None, np.random.default_rng(1)), segments)
    assert len(found) == segments
    carried = segments * SEGMENT_BYTES / found[-1]
    # Mathis's is of Reno; CUBIC's smaller decrease and increase are made to carry the same (RFC 9438, 4.3).
    assert carried == pytest.approx(tcp_bytes_per_s(SEGMENT_BYTES, 30.0, loss), rel=0.15)


def test_losses_are_as_many_as_asked_for_and_as_long():
    for burst, length in ((None, 1 / 0.88), (2.0, 2.0)):
        path = Path(steady(30.0, 0.12), burst, np.random.default_rng(1))
        lost = np.array([path.loses(0.0) for _ in range(200_000)])
        assert lost.mean() == pytest.approx(0.12, abs=0.005)
        runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], lost, [0]]))))[::2]
        assert runs.mean() == pytest.approx(length, rel=0.03)


@pytest.mark.parametrize(("count", "low", "high"), [(1, 0.5, 0.8), (3, 0.15, 0.5), (10, 0.0, 0.12)])
def test_what_expires_is_what_was_measured_on_a_real_link(count, low, high):
    """CUBIC, 15 %, 200 records/s for 6 s, expiry 2 s: 68 to 73 %, 17 to 31 % and up to 5 % at B_S 1, 3 and 10."""
    load, link = Load(BatchSetting(count, 1_000.0), 200.0, 2.0), Link(steady(30.0, 0.15), None, 1)
    came = [len(found) for seed in range(8) for found in answers(load, link, 6.0, seed)]
    assert low < 1 - np.mean(came) / 1_200 < high


def cells():
    study, path = study_named(CONTROL)
    return [cell for cell in cells_of(study, str(path)) if cell.sweep == "policies"]


def options_of(repetition, limit_ms=None):
    options = Task.of(cells()[0], repetition).cell.options
    return options if limit_ms is None else options.model_copy(update={"limit_ms": limit_ms})


def test_the_studys_limit_leaves_room_in_most_periods_and_a_quarter_of_it_does_not():
    limit_ms = options_of(1).limit_ms
    assert {cell.options.limit_ms for cell in cells()} == {limit_ms}
    smallest = np.array([ms for one in REPETITIONS for ms in smallest_limits_ms(options_of(one))])
    assert len(smallest) == len(REPETITIONS) * 4 * 10
    assert (smallest < limit_ms).mean() > 0.5
    assert (smallest < limit_ms / 4).mean() < 0.2


def test_the_policies_find_it_reachable_where_the_model_says_so_and_else_name_the_smallest():
    limit_ms = options_of(1).limit_ms
    found = [model for model in known(options_of(1), limit_ms) if model is not None]
    chosen = {"timely": rules.timely, "deadline": rules.deadline}
    for name, rule in chosen.items():
        choices = [(model, rule(model, BOUNDS.configured, BOUNDS)) for model in found]
        refused = [(model, choice) for model, choice in choices if choice.rule == "unreachable"]
        assert 0 < len(refused) < len(choices) / 2, name
        for model, choice in refused:
            named = re.search(r"takes (\d+) ms, the smallest limit to ask for$", choice.reason)
            assert named is not None
            assert int(named[1]) == round(smallest_limit_ms(model))
            reachable = dataclasses.replace(model, limit_ms=int(named[1]) + 1)
            assert rule(reachable, BOUNDS.configured, BOUNDS).rule != "unreachable"


def test_a_limit_that_the_path_alone_exceeds_is_refused_with_the_smallest():
    study, _ = study_named(CONTROL)
    engine = study.measured_by
    fixed = {**study.scenario, **study.sweeps["policies"].scenario}
    with pytest.raises(Refusal, match=r"limit_ms 20: no batch setting keeps it.* must be above 20$"):
        engine.checked({**fixed, "limit_ms": 20.0}, {"batching": "timely"})
    engine.checked({**fixed, "limit_ms": 20.1}, {"batching": "timely"})


def test_the_report_says_what_the_limit_leaves(tmp_path):
    def result(cell):
        kept = [Kept(Task.of(cell, r), DONE, None, {}, tmp_path) for r in REPETITIONS[:1]]
        return CellResult(cell, kept)

    text = control_sections.limits([result(cell) for cell in cells()])
    assert "The limit is 400 ms; it could be kept in: no decisions are kept." in text
    shares = {int(a): int(b) for a, b in re.findall(r"\| (\d+) \| (\d+)% \|", text)}
    assert list(shares) == [100, 200, 400, 800]
    assert sorted(shares.values()) == list(shares.values())
    assert shares[100] < 40 < shares[400]
    assert control_sections.limits([]) == ""
    rules_met = ["unreachable", "kept", "deadline"]
    lines = [json.dumps({"rule": one, "decided_at_ns": 10**9}) for one in rules_met]
    (tmp_path / DECISIONS).write_text("\n".join(lines))
    series = {"direction": ["uplink"], "applied_at_ns": [1], "asked_loss_ratio": [0.1]}
    pq.write_table(pa.table(series), tmp_path / LINK)
    # Two policies say whether they find it reachable, and both have these decisions here.
    text = control_sections.limits([result(cell) for cell in cells()])
    assert "it could be kept in: 4 of 6 decisions of timely, deadline." in text
