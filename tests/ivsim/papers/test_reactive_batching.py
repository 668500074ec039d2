"""The rules of the claims on batching: made-up runs that are as claimed agree, contrary ones do not, few are not told."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gateways.batching.batcher import BatchSetting
from gateways.batching.latency_laws import Sample
from gateways.batching.waiting import Waiting, mean_waits_ms
from ivsim.papers import paper_of
from ivsim.papers.reactive_batching import accuracy, control_sections, loss_models, sections
from ivsim.papers.reactive_batching.cells import COUNTS, LOST, MEAN, SPEED, TIMELY, Cells, Latencies
from ivsim.papers.reactive_batching.charts import paper_charts
from ivsim.papers.reactive_batching.claims import CLAIMS, best_counts
from ivsim.papers.reactive_batching.laws import (
    ANALYTIC,
    CAUCHY,
    GAMMA,
    PHASE,
    errors,
    hinge_of,
    mean_errors,
    shares_outside,
    thinned,
)
from ivsim.papers.reactive_batching.reasons import reasons
from ivsim.papers.reactive_batching.regret import best_fixed, regret
from ivsim.papers.reactive_batching.report import CONTROL, STUDY, ReactiveBatching
from ivsim.study.catalogue import study_named
from ivsim.study.cells import DONE, Kept, Task
from ivsim.study.claims import decide
from ivsim.study.model import cells_of
from ivsim.study.results import CellResult

REPETITIONS = 4
BASE_MS = 3.0
RECORDS = 1_000
WAIT_MS = 100.0


# Latencies of three humps, each of a gamma law of forty phases.
HUMPS = np.concatenate([np.random.default_rng(7).gamma(40, scale, 5_000) for scale in (0.25, 0.75, 2.0)])


def wobble(kept, spread=0.002):
    """Return a factor near 1 of a repetition of a cell, always the same."""
    task = kept.task
    return 1 + spread * ((task.repetition * 7 + sum(task.cell.name.encode())) % 5 - 2)


@cache
def waiting(count):
    """Return shares of records and the waits that they do not exceed."""
    law = Waiting(BatchSetting(count, WAIT_MS), 100.0, Sample((1e-9,)))
    places = np.linspace(0, WAIT_MS, 500)
    return 1 - law.late(places), places


@cache
def cells_in(name):
    study, path = study_named(name)
    return cells_of(study, str(path))


def drawn(kept, records=RECORDS):
    """Return latencies as the analytic model has them, at the setting of the cell."""
    cell = kept.task.cell
    rng = np.random.default_rng([kept.task.repetition, *cell.name.encode()])
    base = rng.gamma(40.0, BASE_MS / 40.0, records)
    waits = np.zeros(records)
    if cell.sweep in {"latency", "long"}:
        waits = np.interp(rng.uniform(size=records), *waiting(cell.values["batch_messages"]))
    l2 = np.full(records, 1.0)
    return Latencies(base + waits, base + waits - l2, l2)


def as_claimed(kept):  # noqa: PLR0911 - one a sweep
    """Return figures as the paper has them, where a claim looks at one."""
    cell, by = kept.task.cell, wobble(kept)
    values = cell.values
    count = values.get("batch_messages", 1)
    if cell.sweep == "latency":
        return {MEAN: (BASE_MS + float(mean_waits_ms(count, WAIT_MS, 100.0))) * by}
    if cell.sweep == "hinge":
        per_s = values["rate"] / 4
        return {MEAN: (BASE_MS + float(mean_waits_ms(count, WAIT_MS, per_s))) * by}
    if cell.sweep == "throughput":
        return {SPEED: 30_000 * count / (count + 2) * by}
    if cell.sweep == "sync_throughput":
        return {SPEED: 200 * by}
    if cell.sweep == "lossless":
        return {LOST: 0.0}
    if cell.sweep == "loss":
        rough = {1: 0.9, 3: 0.03, 10: 0.01}[count] * by
        late = 1.0 if values["acks"] == "1" else 1.1
        return {LOST: min(1.0, rough * late) if values["loss"] > 0.1 else 0.001 * by}
    if cell.sweep in {"policies", "fixed"}:
        name = values.get("batching", count)
        timely = {
            "reactive": 90.0,
            "pareto": 80.0,
            "deadline": 85.0,
            "timely": 88.0,
            1: 0.0,
            3: 70,
            10: 75,
            30: 60,
        }
        lost = {"reactive": 0.2, "pareto": 0.15, 1: 0.7, 10: 0.05}
        return {TIMELY: timely[name] * by, LOST: lost.get(name, 0.1) * by, **CROSSED}
    return {LOST: 0.5 * by}


CROSSED = {"link_bytes_uplink": 700.0, "consumed": 1_000, "produced": 1_000, "in_time_ratio": 0.5}


def results_of(figures=as_claimed, repetitions=REPETITIONS):
    found = []
    for name in (STUDY, CONTROL):
        for cell in cells_in(name):
            kept = [Kept(Task(cell, r), DONE, None, {}, Path()) for r in range(1, repetitions + 1)]
            found.append(CellResult(cell, [one._replace(figures=figures(one)) for one in kept]))
    return found


def verdicts(found, read=drawn, numbers=range(1, 19)):
    claims = [one for one in CLAIMS if one.number in numbers]
    return {one.number: one.verdict for one in decide(claims, Cells(found, read))}


# Claims that the made-up link bears out, without 3 (one rate's hinge) and the four whose laws are the paper's own.
AS_CLAIMED = {1, 2, 4, 5, 9, 10, 11, 12, 13, 14, 16, 17, 18}
UNTOLD = set(range(1, 19)) - {15}


def test_runs_as_the_paper_has_them_agree():
    found = verdicts(results_of(), numbers=AS_CLAIMED)
    assert {number for number, verdict in found.items() if verdict != "agree"} == set()


def test_the_edge_that_moves_with_the_rate_contradicts_a_fixed_one():
    assert verdicts(results_of(), numbers={3}) == {3: "disagree"}
    text = sections.hinge(Cells(results_of(), drawn))
    assert text.count("\n| ") == 5
    rates = [float(line.split("|")[3]) for line in text.splitlines()[-3:]]
    assert rates == [6, 11, 21]


def _contrary(kept):
    cell, figures = kept.task.cell, as_claimed(kept)
    if cell.sweep in {"latency", "throughput"}:
        name = MEAN if cell.sweep == "latency" else SPEED
        return {name: 1_000 * wobble(kept) / cell.values["batch_messages"]}
    if cell.sweep in {"loss", "lossless"}:
        lost = min(0.9, 0.05 * cell.values["batch_messages"]) * wobble(kept)
        return {LOST: lost * (3.0 if cell.values.get("acks") == "1" else 1.0)}
    if cell.sweep == "policies":
        return {TIMELY: 10 * wobble(kept), LOST: 0.0}
    return figures


def _late_alone(kept):
    """Return latencies that fall with the count, all of them behind the partition, and some without bounds."""
    count = kept.task.cell.values["batch_messages"]
    rng = np.random.default_rng([kept.task.repetition, count])
    latency = rng.gamma(4.0, 100 / 4 / count, 500)
    if kept.task.cell.sweep == "latency":
        latency[:1] = 1e-3
    return Latencies(latency, latency * 0.1, latency * 0.9)


@pytest.mark.full
def test_contrary_runs_do_not_agree():
    found = verdicts(results_of(_contrary), _late_alone, numbers=UNTOLD)
    assert {number for number, verdict in found.items() if verdict == "disagree"} >= {
        *(1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 18),
    }
    # What is timeliest is the smallest count there, too.
    assert {number for number in AS_CLAIMED if found[number] == "agree"} == {17}


def test_two_repetitions_decide_nothing():
    assert set(verdicts(results_of(repetitions=2), numbers=UNTOLD).values()) == {"cannot tell"}


def test_what_was_not_measured_cannot_be_told():
    assert set(verdicts([], numbers=range(1, 19)).values()) <= {"cannot tell", "not comparable"}


def _runs_of(sample, size=4_000):
    """Return cells whose latencies at a count are drawn by `sample(rng, size)`."""

    def read(kept):
        rng = np.random.default_rng([kept.task.repetition, 5])
        latency = sample(rng, size)
        return Latencies(latency, latency, latency)

    return Cells(results_of(), read)


def test_a_law_that_is_true_has_a_small_error_on_runs_that_it_was_not_fitted_to():
    cells = _runs_of(lambda rng, size: rng.gamma(36.0, 0.235, size))
    own, rival = (mean_errors(errors(cells, law, 1)) for law in (GAMMA, CAUCHY))
    assert set(own) == set(range(1, REPETITIONS + 1))
    assert max(own.values()) < 0.015
    assert sum(rival.values()) > 2 * sum(own.values())
    mixed = _runs_of(lambda rng, size: rng.gamma(40, np.where(rng.random(size) < 0.5, 0.25, 1.0)), 600)
    assert max(mean_errors(errors(mixed, PHASE, 1)).values()) < 0.05
    assert max(mean_errors(errors(mixed, CAUCHY, 1)).values()) > 0.05


def test_the_analytic_model_needs_no_fit():
    cells = Cells(results_of(), drawn)
    assert (
        max(error for count in COUNTS for error in mean_errors(errors(cells, ANALYTIC, count)).values())
        < 0.03
    )


def test_a_claim_on_a_law_can_agree_disagree_and_stay_open():
    close = _runs_of(lambda rng, size: np.quantile(rng.gamma(36.0, 0.235, 100_000), (np.arange(size) + 0.5) / size))  # fmt: skip
    (six,) = [one for one in CLAIMS if one.number == 6]
    assert [one.verdict for one in decide([six], close)] == ["agree"]
    two_humps = _runs_of(
        lambda rng, size: np.where(rng.random(size) < 0.5, 2.0, 90.0) * rng.uniform(0.9, 1.1, size)
    )
    assert [one.verdict for one in decide([six], two_humps)] == ["disagree"]


def test_an_error_that_runs_have_against_each_other_contradicts_no_law():
    noisy = _runs_of(lambda rng, size: rng.gamma(36.0, 0.235, size) * rng.uniform(0.8, 1.2), 500)
    (six,) = [one for one in CLAIMS if one.number == 6]
    (found,) = decide([six], noisy)
    assert found.verdict == "cannot tell"
    assert found.repetitions == REPETITIONS


def test_runs_that_are_alike_contradict_laws_of_another_shape():
    steps = _runs_of(lambda _rng, size: np.repeat(np.arange(1, 21) * 10.0, size // 20), 600)
    claims = [one for one in CLAIMS if one.number in {6, 7, 8}]
    assert [one.verdict for one in decide(claims, steps)] == ["disagree"] * 3


@pytest.mark.full
def test_the_phase_type_law_is_judged_by_the_long_runs_alone():
    def read(kept):
        rng = np.random.default_rng([kept.task.repetition, 5])
        noise = rng.uniform(1, 2, 200) * kept.task.repetition
        latency = rng.permutation(HUMPS) if kept.task.cell.sweep == "long" else noise
        return Latencies(latency, latency, latency)

    (seven,) = [one for one in CLAIMS if one.number == 7]
    assert [one.verdict for one in decide([seven], Cells(results_of(), read))] == ["agree"]
    short = [one for one in results_of() if one.cell.sweep != "long"]
    assert [one.verdict for one in decide([seven], Cells(short, read))] == ["cannot tell"]
    (asked,) = [
        cell.options
        for cell in cells_in(STUDY)
        if cell.sweep == "long" and cell.values == {"batch_messages": 7}
    ]
    (usual,) = [
        cell.options
        for cell in cells_in(STUDY)
        if cell.sweep == "latency" and cell.values == {"batch_messages": 7}
    ]
    assert asked.rate / asked.producers == usual.rate / usual.producers
    records = [one.rate * (one.duration_s - one.warmup_s) for one in (asked, usual)]
    assert records[0] > 15 * records[1]


def test_a_thinned_sample_has_the_distribution_of_the_whole_one():
    whole = np.random.default_rng(1).gamma(3.0, 10.0, 50_001)
    few = thinned(whole, 1_000)
    assert few.size == 1_000
    assert set(few) <= set(whole)
    limits = np.quantile(whole, np.arange(1, 100) / 100)
    assert np.abs(Sample.of(few).late(limits) - Sample.of(whole).late(limits)).max() <= 1e-3
    assert thinned(few, 1_000) is few


def test_the_hinge_is_found_where_it_was_put():
    counts = np.array([1, 3, 10, 20, 40], dtype=float)
    assert hinge_of(counts, 4 + 5 * np.minimum(counts, 12.0)) == pytest.approx(12.0, abs=0.2)


def test_what_lies_outside_the_bounds_is_counted_by_repetition():
    def read(kept):
        latency = np.array([10.0, 20.0])
        if kept.task.cell.sweep == "latency":
            latency = np.append(np.linspace(10, 120, 99), 120.1 if kept.task.repetition == 1 else 120.0)
        return Latencies(latency, latency, latency)

    found = shares_outside(Cells(results_of(), read), (1, 2))
    assert found == [pytest.approx(0.01), 0.0, 0.0, 0.0]


def test_the_best_count_is_the_timeliest_and_the_mean_allows_a_larger_one():
    assert {kept - best > 0 for best, kept in best_counts(Cells(results_of(), drawn)).values()} == {True}


def test_regret_is_what_the_best_fixed_count_has_more():
    fixed = {1: {1: 20.0, 2: 60.0}, 10: {1: 80.0, 2: 50.0, 3: 9.0}}
    assert best_fixed(fixed) == {1: (10, 80.0), 2: (1, 60.0)}
    assert regret({1: 60.0, 2: 66.0, 3: 1.0}, fixed) == {1: 0.25, 2: pytest.approx(-0.1)}
    assert regret({1: 1.0}, {1: {1: 0.0}}) == {}
    assert regret({1: 1.0}, {}) == {}


def _loss_cells(repetitions=(1, 2)):
    asked = [(loss, count, 1) for loss in (0.0, 0.05, 0.1, 0.15, 0.2, 0.25) for count in (1, 3, 10)]
    return [
        loss_models.LossCell(
            *cell, dict.fromkeys(repetitions, 1 / (1 + math.exp(-(cell[0] - 0.1 - 0.01 * cell[1]) / 0.03)))
        )
        for cell in asked
    ]


def test_loss_is_predicted_from_other_cells_alone():
    found = _loss_cells()
    seen = []

    def spy(features, lost, asked):
        seen.append(({tuple(row) for row in features}, {tuple(row) for row in asked}))
        return np.zeros(len(asked))

    predicted = loss_models.predictions(found, spy)
    assert all(not known & asked for known, asked in seen)
    assert sum(len(asked) for _, asked in seen) == len(found)
    lost = [one.lost[1] for one in found]
    assert loss_models.mean_errors(found, predicted) == {r: pytest.approx(np.mean(lost)) for r in (1, 2)}
    assert loss_models.largest_error(found, predicted) == pytest.approx(max(lost))
    logistic = loss_models.predictions(found, loss_models.MODELS[loss_models.LOGISTIC])
    assert loss_models.mean_errors(found, logistic)[1] < 0.01


def test_a_fit_that_fails_gives_no_error_and_not_a_small_one():
    def diverges(_features, _lost, _asked):
        raise ValueError("non-finite")

    found = _loss_cells()
    predicted = loss_models.predictions(found, diverges)
    assert loss_models.mean_errors(found, predicted) == {}
    assert loss_models.largest_error(found, predicted) is None


def test_the_formula_says_that_requests_in_flight_bound_what_is_carried():
    formula = loss_models.MODELS[loss_models.FORMULA]
    none = np.empty((0, 3))
    one, ten, unanswered = formula(none, none[:, 0], np.array([(0.0, 1, 1), (0.0, 10, 1), (0.0, 1, 0)]))
    assert one == pytest.approx(1 - (5 / 0.030) / 200)
    assert (ten, unanswered) == (0.0, 0.0)


@pytest.mark.skipif(not loss_models.has_learning(), reason="needs scikit-learn (pip install 'ivsim[models]')")
def test_the_network_is_decided_where_it_can_be_fitted(monkeypatch):
    monkeypatch.setitem(loss_models.MODELS, loss_models.NETWORK, loss_models.MODELS[loss_models.MEAN_LOSS])
    assert verdicts(results_of(), numbers={15}) == {15: "disagree"}


@pytest.mark.skipif(not loss_models.has_learning(), reason="needs scikit-learn (pip install 'ivsim[models]')")
def test_what_is_learned_gives_a_share_for_each_cell(monkeypatch):
    monkeypatch.setattr(loss_models, "EPOCHS", 3)
    monkeypatch.setattr(loss_models, "FOLDS", 2)
    few = _loss_cells()[:8]
    for name in loss_models.NEEDS_LEARNING:
        learned = loss_models.predictions(few, loss_models.MODELS[name])
        assert ((learned >= 0) & (learned <= 1)).all(), name


def test_a_reason_is_given_where_its_premises_hold_and_else_not():
    found = reasons(Cells(results_of(), drawn))
    assert "The hinge moves with the rate (6.8" in found[3][0]
    assert not any("where no packet is" in one for one in found.get(11, []))
    assert {one.partition(" 50% are lost")[0] for one in found[13]} == {
        *(
            "With requests in flight without limit",
            "With 100 records/s instead of 200",
            "With BBR instead of CUBIC",
        ),
        *(
            "With loss in bursts of 3.5 packets",
            "With loss on both directions",
            "With expiry 4 s instead of 1 s",
        ),
    }
    assert (14 in found, 18 in found) == (False, False)
    other = reasons(Cells(results_of(_contrary), _late_alone))
    assert "(5% at B_S 1)" in other[11][0]
    assert "5% are lost without answers, 15% with them" in other[14][0]
    assert other[18][0].startswith("One count is best throughout (B_S 10:")
    assert reasons(Cells([])) == {}


@pytest.mark.full
def test_what_is_accurate_enough_is_told_from_what_is_not(monkeypatch):
    monkeypatch.setattr(
        accuracy.loss_models, "fittable", lambda: [loss_models.LOGISTIC, loss_models.MEAN_LOSS]
    )
    text = accuracy.accuracy(Cells(results_of(), drawn))
    rows = {
        cell[1].strip(): [one.strip() for one in cell]
        for line in text.splitlines()
        if (cell := line.split("|"))[1:]
    }
    assert rows["late, B_S 30"][2] == ANALYTIC
    assert rows["late, B_S 30"][4:6] == ["0.02", "met"]
    assert rows["lost"][4:6] == ["0.03", "not met"]
    assert rows["lost"][2] in {loss_models.LOGISTIC, loss_models.MEAN_LOSS}
    few = accuracy.accuracy(Cells([], drawn))
    assert few.count("| none | \u2013 |") == len(COUNTS) + 1
    assert few.count("not measured") == len(COUNTS) + 1


def test_an_error_whose_interval_holds_its_bound_is_undecided():
    assert accuracy.best_model({"a": {1: 0.01, 2: 0.02, 3: 0.03}}, 0.02)[3] == "undecided"
    assert accuracy.best_model({"a": {1: 0.01, 2: 0.01}, "b": {1: 0.001, 2: 0.001}}, 0.02)[::3] == [
        "b",
        "met",
    ]
    assert accuracy.best_model({"a": {1: 0.01}}, 0.02)[3] == "undecided"


@pytest.mark.full
def test_the_paper_has_its_sections_and_charts(monkeypatch):
    monkeypatch.setattr(loss_models, "EPOCHS", 3)
    assert isinstance(paper_of(STUDY), ReactiveBatching)
    found = results_of()
    cells = Cells(found, drawn)
    causes = sections.causes(cells)
    assert "| 15% | BBR instead of CUBIC |" in causes
    assert "| 8% | 100 records/s instead of 200 |" in causes
    assert "| 8% | BBR" not in causes
    text = control_sections.policies(cells)
    assert "| reactive | " in text
    assert "Best fixed B_S of each repetition, known only afterwards: 10, 10, 10, 10." in text
    assert "| B_S 10 | " in text
    assert set(paper_charts(cells, [])) == {
        *("latency-over-count.svg", "calibration.svg", "loss-calibration.svg", "loss-over-loss.svg")
    }
    assert paper_charts(Cells([]), []) == {}
