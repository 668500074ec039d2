"""The rules of the claims on ingestion platforms: the thesis's own figures agree, contrary ones do not, none are not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.papers import paper_of
from ivsim.papers.ingestion_platforms.cells import CACHE, KAFKA, LOADS, PULSAR, REDIS, SIZES, SYNCED
from ivsim.papers.ingestion_platforms.claims import CLAIMS
from ivsim.papers.ingestion_platforms.report import IngestionPlatforms, costs, decided_claims, kills, promises
from ivsim.study.catalogue import study_named
from ivsim.study.cells import DONE, Kept, Task
from ivsim.study.claims_report import number_of
from ivsim.study.model import cells_of
from ivsim.study.results import CellResult

# Table for table as the thesis has them: 1, 65 and 600 kB.
SPEED = {KAFKA: (137_676, 4_738, 870), PULSAR: (195_068, 2_953, 293), REDIS: (54_124, 4_684, 337)}
MEGABYTES = {KAFKA: (131.30, 293.70, 497.81), PULSAR: (186, 183.05, 167.65), REDIS: (51.61, 290.35, 192.83)}
# In the order of LOADS: low and high rate of each size.
MEAN = {
    KAFKA: (1.714, 1.995, 2.842, 3.499, 5.407, 5.728),
    PULSAR: (0.557, 0.472, 1.534, 0.704, 2.782, 3.773),
    REDIS: (0.440, 0.660, 1.237, 0.975, 5.350, 5.357),
}
MAXIMUM = {
    KAFKA: (5.312, 21.627, 5.532, 44.027, 65.192, 71.531),
    PULSAR: (5.919, 6.102, 8.064, 5.530, 6.114, 12.949),
    REDIS: (4.013, 3.395, 12.291, 41.219, 45.216, 154.397),
}
NOT_COMPARABLE = {8, 9, 10}
# Its text says all six, its table says four.
OWN_SLIP = 13
REPETITIONS = 8


def _figures(cell, wobble):
    """Return what the thesis would have measured in a cell, off by a little."""
    values = cell.values
    platform = values["platform"]
    if cell.sweep == "capacity":
        size = SIZES.index(values["record"])
        return {
            "records_per_s": SPEED[platform][size] * wobble,
            "payload_mb_per_s": MEGABYTES[platform][size] * wobble,
            "platform_cpu_us": 9.0,
        }
    if cell.sweep == "kills":
        lost = int(platform == REDIS)
        return dict.fromkeys(("produced", "acknowledged", "consumed", "duplicates"), 100) | {
            "acknowledged_lost": lost,
            "recovery_s": 2.0,
            "outage_s": 1.0,
        }
    (at,) = [
        place for place, one in enumerate(LOADS) if (one.sweep, one.rate) == (cell.sweep, values["rate"])
    ]
    return {"latency_mean_ms": MEAN[platform][at] * wobble, "latency_p999_ms": MAXIMUM[platform][at] * wobble}


def results_of(figures=_figures, repetitions=REPETITIONS, durability=CACHE):
    study, path = study_named("ingestion-platforms")
    found = []
    for cell in cells_of(study, str(path)):
        if cell.values["durability"] != durability:
            continue
        kept = [
            Kept(
                Task(cell, r),
                DONE,
                None,
                figures(cell, 1 + 0.0002 * ((r * 7 + len(cell.name)) % 5 - 2)),
                Path(),
            )
            for r in range(1, repetitions + 1)
        ]
        found.append(CellResult(cell, kept))
    return found


def verdicts(found, durability=CACHE):
    return {one.number: one.verdict for one in decided_claims(found, durability)}


def test_the_thesis_own_figures_agree_with_what_it_claims_but_for_its_own_slip():
    found = verdicts(results_of())
    assert list(found) == list(range(1, 21))
    assert {number for number, verdict in found.items() if verdict == "not comparable"} == NOT_COMPARABLE
    others = {number: verdict for number, verdict in found.items() if number not in NOT_COMPARABLE}
    assert {number for number, verdict in others.items() if verdict != "agree"} == {OWN_SLIP}
    assert others[OWN_SLIP] == "disagree"


def test_with_the_platforms_exchanged_no_order_of_them_agrees():
    other = {KAFKA: REDIS, REDIS: PULSAR, PULSAR: KAFKA}

    def exchanged(cell, wobble):
        return _figures(
            cell._replace(values={**cell.values, "platform": other[cell.values["platform"]]}), wobble
        )

    found = verdicts(results_of(exchanged))
    contrary = {number for number, verdict in found.items() if verdict == "disagree"}
    assert contrary >= {1, 3, 4, 6, 11, 12, 13, 14, 15, 18, 19}


def test_what_is_claimed_of_several_cells_is_claimed_of_their_mean():
    found = decided_claims(results_of(), CACHE)
    with_mean = {
        one.number for one in found if any(part.text.startswith("mean of ") for part in one.findings)
    }
    assert with_mean == {1, 3, 4, 5, 6, 12, 13, 14, 15, 16, 17, 18, 19}


def test_each_durability_is_decided_by_its_own_cells():
    found = results_of(durability=SYNCED)
    assert verdicts(found, SYNCED)[1] == "agree"
    assert set(verdicts(found, CACHE).values()) == {"cannot tell", "not comparable"}


def test_two_repetitions_decide_nothing():
    assert set(verdicts(results_of(repetitions=2)).values()) == {"cannot tell", "not comparable"}


def test_what_was_not_measured_cannot_be_told():
    found = decided_claims([], CACHE)
    assert {one.verdict for one in found} == {"cannot tell", "not comparable"}
    assert all("not measured" in number_of(one) for one in found if one.number not in NOT_COMPARABLE)


def test_a_tie_is_shown_and_not_taken_from_noise():
    def wide(cell, wobble):
        found = _figures(cell, wobble)
        if cell.sweep == "capacity" and cell.values["record"] == "b65k":
            found["records_per_s"] *= 1 + 1_000 * (wobble - 1) * (cell.values["platform"] == KAFKA)
        return found

    assert verdicts(results_of(wide))[2] == "cannot tell"


@pytest.mark.parametrize(("number", "sweep"), [(11, "small"), (20, "large")])
def test_a_mean_over_its_limit_contradicts(number, sweep):
    def slow(cell, wobble):
        found = _figures(cell, wobble)
        if cell.sweep == sweep and cell.values["platform"] == PULSAR:
            found["latency_mean_ms"] *= 5
        return found

    assert verdicts(results_of(slow))[number] == "disagree"


def test_the_study_has_every_cell_that_claims_ask_for():
    found = results_of()
    assert len(found) == 9 + 18 + 3
    assert {one.cell.values["platform"] for one in found} == {KAFKA, PULSAR, REDIS}


def test_the_report_says_what_each_promise_is_and_what_a_record_costs():
    text = promises()
    for words in ("appendfsync always", "journalSyncData=true", "flush.messages=1"):
        assert words in text
    assert costs(results_of()).count("| cache |") == 9


def test_the_ledgers_over_kills_add_up_over_repetitions():
    lines = {line.split("|")[1].strip(): line for line in kills(results_of()).splitlines() if "cache" in line}
    assert [cell.strip() for cell in lines[REDIS].split("|")[3:8]] == ["800", "800", "800", "800", "8"]
    assert lines[KAFKA].split("|")[7].strip() == "0"


def test_a_ledger_that_one_repetition_does_not_know_has_no_sum():
    def unknown(cell, wobble):
        return _figures(cell, wobble) | {"acknowledged_lost": None}

    assert "| 800 | 800 | 800 | 800 | 0 |" not in kills(results_of(unknown))


def test_it_is_found_by_its_study_and_numbers_its_claims():
    assert isinstance(paper_of("ingestion-platforms"), IngestionPlatforms)
    assert [claim.number for claim in CLAIMS] == list(range(1, 21))
