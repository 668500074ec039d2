"""Rules by which claims are decided: made-up results on both sides of each border, and what precision may change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from ivsim.study.claims import (
    AGREE,
    CANNOT_TELL,
    DEPENDS,
    DISAGREE,
    NOT_COMPARABLE,
    VERDICTS,
    Claim,
    Decided,
    Finding,
    Ordering,
    Published,
    RepetitionCount,
    across,
    as_interval,
    decide,
    inside,
    judged_together,
    none_of,
    not_comparable,
    ordered,
    p_beyond,
    p_of_counts,
    some_of,
    together,
)
from ivsim.study.claims_report import (
    answer,
    cause_of,
    claims_section,
    claims_text,
    evidence_section,
    number_of,
)
from ivsim.study.clusters import MIN_REPETITIONS, Clusters
from ivsim.study.statistics import Comparison, Interval


def finding(verdict: str) -> Finding:
    return Finding(verdict, "")


def comparison(difference: float, half: float) -> Comparison:
    """Return a difference with the p-value that its interval has (normal)."""
    whole = Comparison(difference, difference - half, difference + half, 0.0)
    return whole._replace(p_value=p_beyond(whole._replace(p_value=1.0), 1e-300))


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([AGREE, AGREE], AGREE),
        ([AGREE, CANNOT_TELL], CANNOT_TELL),
        ([AGREE, CANNOT_TELL, DISAGREE], DISAGREE),
        ([], CANNOT_TELL),
        ([NOT_COMPARABLE, NOT_COMPARABLE], NOT_COMPARABLE),
        ([NOT_COMPARABLE, AGREE], NOT_COMPARABLE),
        ([NOT_COMPARABLE, CANNOT_TELL], CANNOT_TELL),
        ([NOT_COMPARABLE, DISAGREE], DISAGREE),
    ],
)
def test_parts_make_a_verdict(parts: list[str], verdict: str):
    assert together([finding(part) for part in parts]) == verdict


def test_a_claim_depends_on_settings_that_are_all_decided():
    assert across([AGREE, AGREE]) == AGREE
    assert across([DISAGREE, DISAGREE]) == DISAGREE
    assert across([AGREE, DISAGREE]) == DEPENDS
    assert across([AGREE, CANNOT_TELL]) == CANNOT_TELL
    assert across([DISAGREE, CANNOT_TELL]) == CANNOT_TELL
    assert across([NOT_COMPARABLE, DISAGREE]) == NOT_COMPARABLE
    assert across([NOT_COMPARABLE, CANNOT_TELL, DISAGREE]) == CANNOT_TELL


@pytest.mark.parametrize(
    ("difference", "half", "plain", "with_ties"),
    [
        (5.0, 1.0, AGREE, AGREE),
        (5.0, 6.0, CANNOT_TELL, AGREE),  # across 0, not across the margin
        (5.0, 8.0, CANNOT_TELL, CANNOT_TELL),  # across 0 and across the margin
        (0.5, 1.0, CANNOT_TELL, AGREE),  # no more than the margin apart, shown
        (-0.5, 1.0, CANNOT_TELL, AGREE),
        (-5.0, 1.0, DISAGREE, DISAGREE),
        (-5.0, 3.5, CANNOT_TELL, CANNOT_TELL),  # significantly below 0, perhaps by less than the margin
        (-1.9, 0.2, CANNOT_TELL, CANNOT_TELL),  # significantly below 0, and perhaps not by the margin
        (-1.5, 0.2, CANNOT_TELL, AGREE),
    ],
)
def test_an_ordering_has_a_margin(difference: float, half: float, plain: str, with_ties: str):
    one = [Ordering("x", comparison(difference, half), "ms", 2.0)]
    assert ordered(one)[0].verdict == plain
    assert ordered(one, ties=True)[0].verdict == with_ties


def test_an_ordering_without_margin_is_contrary_as_soon_as_it_is_significant():
    found = ordered([Ordering("x", comparison(-0.5, 0.2)), Ordering("y", None)])
    assert [f.verdict for f in found] == [DISAGREE, CANNOT_TELL]


def judged(*parts: list[Finding]) -> list[str]:
    claims = [Claim(k, f"claim {k}", "rule", lambda _, found=found: found) for k, found in enumerate(parts)]
    return [one.verdict for one in judged_together(decide(claims, None))]


def test_agreement_needs_no_correction_and_contradiction_does_over_all_claims():
    # p = 0.02 decides alone, not as one of ten.
    weak = comparison(1.0, 0.84)
    assert 0.01 < weak.p_value < 0.05
    contrary = comparison(-1.0, 0.84)
    assert judged(ordered([Ordering("x", weak)] * 10)) == [AGREE]
    assert judged(ordered([Ordering("x", contrary)])) == [DISAGREE]
    assert judged(ordered([Ordering("x", contrary), *[Ordering("n", None)] * 9])) == [CANNOT_TELL]
    # Other claims count once each, however many parts they have.
    nine = ordered([Ordering("n", weak)] * 9)
    assert judged(ordered([Ordering("x", contrary)]), nine) == [DISAGREE, AGREE]
    assert judged(ordered([Ordering("x", contrary)]), nine, nine) == [CANNOT_TELL, AGREE, AGREE]
    sure = ordered([Ordering("x", comparison(-1.0, 0.5))])
    assert judged(sure, nine, nine) == [DISAGREE, AGREE, AGREE]
    # Nor does one of many parts, each as likely by chance, leave the next claim a wider level.
    near, nearer = (ordered([Ordering("x", comparison(-1.0, half))]) for half in (0.9, 0.68))
    assert 0.025 < near[0].p_value < 0.05
    assert 0.0025 < nearer[0].p_value < 0.025
    assert judged(near) == [DISAGREE]
    assert judged([*nearer, *[finding(CANNOT_TELL)] * 9], near) == [CANNOT_TELL, CANNOT_TELL]
    # In a claim that is contradicted a part that is not sure enough by itself stays open.
    (one,) = judged_together(
        decide([Claim(1, "", "", lambda _: ordered([Ordering("x", contrary)]) + sure * 2)], None)
    )
    assert [part.verdict for part in one.findings] == [CANNOT_TELL, DISAGREE, DISAGREE]


def test_a_part_that_settings_share_counts_once():
    """0.0025 < p < 0.005: as one of ten parts it decides, as one of twenty it does not."""
    near = ordered([Ordering("near", comparison(-1.0, 0.68))])
    assert 0.0025 < near[0].p_value < 0.005
    shared = [Finding(AGREE, f"shared {k}") for k in range(9)]
    own = [Finding(AGREE, f"own {k}") for k in range(10)]
    claim = Claim(1, "", "", lambda findings: findings)
    for other, verdict in ((near + shared, DISAGREE), (own, CANNOT_TELL)):
        (found,) = judged_together(decide([claim], None, {"one": near + shared, "other": other}))
        assert {part.verdict for part in found.settings["one"]} == {AGREE, verdict}


def test_of_works_whose_claims_all_hold_one_in_twenty_is_contradicted_at_most():
    """Each true difference is the margin itself, where a contradiction is likeliest: 20 claims of 5 parts, 400 works."""
    rng = np.random.default_rng(8)
    wrong = 0
    for shifts in rng.normal(0, 1, (400, 20, 5)):
        parts = [
            ordered([Ordering("x", comparison(one - 2.0, 1.959964), "ms", 2.0) for one in some])
            for some in shifts
        ]
        wrong += DISAGREE in judged(*parts)
    assert wrong <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_a_claim_at_its_border_agrees_by_chance_in_one_of_twenty_at_most():
    """Several parts, all at the border: agreement of all of them is no likelier than that of one."""
    rng = np.random.default_rng(9)
    for parts in (1, 3):
        found = [
            judged(ordered([Ordering("x", comparison(one, 1.959964)) for one in some]))
            for some in rng.normal(0, 1, (1_000, parts))
        ]
        assert found.count([AGREE]) <= 1_000 * 0.05


def test_the_same_within_a_margin_is_two_one_sided_tests():
    # 95 %: -1.1 to 1.1; 90 %: -0.92 to 0.92.
    assert inside("x", Interval(0.0, -1.1, 1.1, 9), -1.0, 1.0).verdict == AGREE
    assert inside("x", Interval(0.0, -1.3, 1.3, 9), -1.0, 1.0).verdict == CANNOT_TELL
    assert inside("x", Interval(0.0, -1.1, 1.1, 9), -float("inf"), 1.0).verdict == CANNOT_TELL
    # At a border it is found in one of twenty: the other bound is far.
    rng = np.random.default_rng(10)
    found = [
        inside("x", Interval(one, one - 1.959964, one + 1.959964, 9), -20.0, 0.0).verdict
        for one in rng.normal(0, 1, 2_000)
    ]
    assert 0.035 < found.count(AGREE) / 2_000 < 0.065


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(2.1, 4.9, AGREE), (5.1, 6.0, DISAGREE), (1.0, 2.5, CANNOT_TELL), (0.1, 1.9, DISAGREE)],
)
def test_a_figure_lies_inside_outside_or_across(low: float, high: float, verdict: str):
    assert inside("x", Interval((low + high) / 2, low, high, 9), 2.0, 5.0).verdict == verdict


def test_the_published_uncertainty_widens_the_borders():
    ping = Published(2.52, 1.37, 200)
    assert ping.half_width == pytest.approx(0.191, abs=0.001)
    for low, high, alone, with_it in (
        (4.9, 5.15, CANNOT_TELL, AGREE),
        (5.05, 5.15, DISAGREE, AGREE),
        (5.25, 5.4, DISAGREE, DISAGREE),
        (1.82, 2.1, CANNOT_TELL, AGREE),
        (1.5, 1.75, DISAGREE, DISAGREE),
    ):
        measured = Interval((low + high) / 2, low, high, 9)
        assert inside("x", measured, 2.0, 5.0).verdict == alone
        assert inside("x", measured, 2.0, 5.0, published=ping).verdict == with_it


@pytest.mark.parametrize(
    ("count", "n", "verdict"),
    [
        (0, 450, CANNOT_TELL),  # up to 0.8 % of them may be lost
        (1, 450, CANNOT_TELL),  # no disagreement with 0 of 450
        (0, 1_350, AGREE),
        (1, 1_350, AGREE),
        (12, 450, DISAGREE),
        (4, 450, CANNOT_TELL),
        (3_000, 10_000, DISAGREE),
        (0, 0, CANNOT_TELL),
    ],
)
def test_none_of_many(count: int, n: int, verdict: str):
    assert none_of("lost", count, n, 0.005).verdict == verdict


def test_a_count_is_contrary_by_the_border_and_by_the_published_one():
    """60 of 450 are far beyond the border, and of 20 published ones 0 says little: the less sure of both counts."""
    found = none_of("lost", 60, 450, 0.005, published_n=40)
    assert found.verdict == DISAGREE
    assert found.p_value == p_of_counts((60, 450), (0, 40)) > 1e-3


def test_none_of_few_published_contradicts_little():
    assert none_of("lost", 12, 450, 0.005).verdict == DISAGREE
    assert none_of("lost", 12, 450, 0.005, published_n=20).verdict == CANNOT_TELL


@pytest.mark.parametrize(
    ("count", "n", "verdict"),
    [
        (12, 450, AGREE),
        (4, 450, CANNOT_TELL),
        (0, 450, CANNOT_TELL),
        (0, 1_350, DISAGREE),
        (0, 0, CANNOT_TELL),
    ],
)
def test_some_of_many(count: int, n: int, verdict: str):
    assert some_of("lost", count, n, 0.005).verdict == verdict


def test_two_counts_differ_by_more_than_chance():
    def differ(here: tuple[int, int], there: tuple[int, int]) -> bool:
        return p_of_counts(here, there) < 0.05

    assert not differ((1, 450), (0, 450))
    assert not differ((3, 450), (0, 450))
    assert differ((12, 450), (0, 450))
    assert differ((7, 10), (1, 10)) == differ((1, 10), (7, 10)) is True
    assert not differ((6, 10), (1, 10))
    assert not differ((1, 2), (0, 0))


def test_fewer_than_three_repetitions_decide_nothing():
    claim = Claim(7, "words", "rule", lambda _: [])
    for verdict in VERDICTS:
        if verdict == DEPENDS:
            continue  # of settings, not of a finding
        few = Decided(claim, [finding(verdict)], MIN_REPETITIONS - 1)
        assert few.found == verdict
        assert few.verdict == (NOT_COMPARABLE if verdict == NOT_COMPARABLE else CANNOT_TELL)
        assert verdict == NOT_COMPARABLE or cause_of(few) == "2 of at least 3 repetitions"
        assert Decided(claim, [finding(verdict)], MIN_REPETITIONS).verdict == verdict
        assert Decided(claim, [finding(verdict)]).verdict == verdict
    few = Decided(claim, [finding(AGREE)], 1)
    assert (
        answer([few])
        == "Of the 1 claims 1 cannot be told (7). 1 have fewer than 3 repetitions and are not decided."
    )


class Cells(RepetitionCount):
    """Evidence of named cells, with how many repetitions each has."""

    def __init__(self, **cells: int) -> None:
        super().__init__()
        self.cells = cells

    def get(self, name: str) -> int:
        self.looked_at(self.cells[name])
        return self.cells[name]


def test_the_repetitions_of_a_claim_are_those_of_the_cells_it_looks_at():
    def of(number: int, *names: str) -> Claim:
        def findings(cells: Cells) -> list[Finding]:
            for name in names:
                cells.get(name)
            return [finding(AGREE)]

        return Claim(number, "", "", findings)

    cells = Cells(often=5, thrice=3, once=1)
    found = decide([of(1, "often", "thrice"), of(2, "once", "often"), of(3)], cells)
    assert [one.repetitions for one in found] == [3, 1, None]
    assert [one.verdict for one in found] == [AGREE, CANNOT_TELL, AGREE]
    both = decide([of(1, "often")], Cells(often=5), {"a": Cells(often=4), "b": Cells(often=2)})
    assert both[0].repetitions == 2


def test_a_claim_is_decided_in_every_setting():
    claim = Claim(1, "blocks", "rule", lambda verdict: [Finding(verdict, f"it is {verdict}")])
    same = decide([claim], None, {"one": AGREE, "other": AGREE})[0]
    split = decide([claim], None, {"one": AGREE, "other": DISAGREE})[0]
    assert (same.verdict, split.verdict) == (AGREE, DEPENDS)
    assert cause_of(split) == "agrees with one, disagrees with other"
    assert number_of(split) == "other: it is disagree"
    assert "**depends**" in claims_section([split])
    assert "1 depend on what the work does not state (1)" in answer([split])
    assert "| one | it is agree | agree |" in evidence_section([split])


def test_the_table_has_a_line_with_one_number_and_a_cause_for_each_claim():
    """The number is the surest contrary part, or the least sure of those that agree; all parts stand below."""
    parts = ordered([Ordering("near", comparison(1.0, 0.9)), Ordering("far", comparison(9.0, 0.9))])
    contrary = ordered([Ordering("a bit", comparison(-1.0, 0.5)), Ordering("much", comparison(-9.0, 0.5))])
    claims = [
        Claim(1, "holds", "rule", lambda _: parts, "a.svg"),
        Claim(2, "does not", "rule", lambda _: [*parts, *contrary], "a.svg"),
        Claim(3, "open", "rule", lambda _: [*parts, Finding(CANNOT_TELL, "not measured")]),
    ]
    decided = judged_together(decide(claims, None))
    assert [number_of(one).split(":")[0] for one in decided] == ["near", "much", "not measured"]
    said = [cause_of(one, "because of something") for one in decided]
    assert said == ["all 2 parts as claimed", "because of something", "1 of 3 parts open"]
    assert cause_of(decided[1]) == "2 of 4 parts contrary"
    assert all(len(text.split()) <= 15 for text in said)
    rows = [line for line in claims_section(decided).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 3
    assert "a bit" not in claims_section(decided)
    evidence = evidence_section(decided, {2: ["A sentence."]})
    assert all(text in evidence for text in ("a bit", "far", "A sentence.", "Picture: at claim 1."))
    assert evidence.count("![](a.svg)") == 1


def test_what_cannot_be_compared_is_said_with_its_reason():
    claim = Claim(18, "speed", "rule", lambda _: [not_comparable("C++", "no compiler here")])
    decided = decide([claim], None)
    assert answer(decided) == "Of the 1 claims 1 are not comparable (18)."
    assert "no compiler here" in claims_text(decided)


# Precision alone: intervals that lie within one another, around estimates that may move within the wider one.
borders = st.floats(-10, 10)
halves = st.floats(0.01, 20)


@given(borders, st.floats(0, 1), halves, st.floats(0, 5), st.booleans())
def test_more_precision_never_turns_an_ordering_round(
    difference: float, share: float, half: float, margin: float, ties: bool
):
    narrow = half * share + 1e-6
    for moved in (-1.0, 0.0, 1.0):
        inner = difference + moved * max(half - narrow, 0.0)
        before = ordered([Ordering("x", comparison(difference, half), "ms", margin)], ties=ties)[0].verdict
        after = ordered([Ordering("x", comparison(inner, narrow), "ms", margin)], ties=ties)[0].verdict
        assert {before, after} != {AGREE, DISAGREE}


@given(st.lists(borders, min_size=4, max_size=4), borders, borders)
def test_more_precision_never_turns_a_figure_round(ends: list[float], low: float, high: float):
    outer_low, inner_low, inner_high, outer_high = sorted(ends)
    low, high = sorted((low, high))
    middle = (inner_low + inner_high) / 2
    found = {
        inside("x", Interval(middle, a, b, 9), low, high).verdict
        for a, b in ((outer_low, outer_high), (inner_low, inner_high))
    }
    assert found != {AGREE, DISAGREE}


@given(st.integers(0, 40), st.integers(40, 400), st.integers(2, 40), st.floats(0.001, 0.2))
def test_the_same_share_of_more_is_never_turned_round(count: int, n: int, times: int, border: float):
    for rule in (none_of, some_of):
        found = {rule("x", count * k, n * k, border).verdict for k in (1, times)}
        assert found != {AGREE, DISAGREE}


@given(st.integers(0, 100), st.integers(100, 400), st.floats(0.001, 0.2))
def test_none_and_some_are_never_both_true_or_both_false(count: int, n: int, border: float):
    none, some = none_of("x", count, n, border).verdict, some_of("x", count, n, border).verdict
    assert (none, some) not in itertools.product((AGREE, DISAGREE), repeat=2) or none != some


def test_a_p_value_is_of_the_interval_s_own_degrees_of_freedom():
    """Two half-widths away: 0.00009 by the normal, and a hundred times that with two degrees of freedom."""
    few = Comparison(-10.0, -15.0, -5.0, 0.01, 3, 2.0)
    assert p_beyond(few, -1e-9) == pytest.approx(
        2 * special.stdtr(2, -2 * special.stdtrit(2, 0.975)), rel=1e-6
    )
    assert p_beyond(few, -1e-9) > 0.01
    assert p_beyond(few._replace(freedom=None), -1e-9) < 1e-4
    apart = as_interval(few)
    assert inside("x", apart, 0.0, 1.0).p_value == pytest.approx(p_beyond(few, -1e-9), rel=1e-3)


def test_an_open_claim_shows_what_is_open_in_it():
    contrary = ordered([Ordering("contrary", comparison(-9.0, 0.5))])
    settings = {"one": contrary, "other": [Finding(CANNOT_TELL, "not measured")]}
    (found,) = judged_together(decide([Claim(1, "", "", lambda parts: parts)], None, settings))
    assert (found.verdict, number_of(found)) == (CANNOT_TELL, "other: not measured")


def test_some_claims_are_judged_as_part_of_all():
    claim = Claim(1, "", "", lambda _: ordered([Ordering("x", comparison(-1.0, 0.84))]))
    assert judged_together(decide([claim], None))[0].verdict == DISAGREE
    assert judged_together(decide([claim], None), 10)[0].verdict == CANNOT_TELL


def test_the_p_value_at_a_border_is_that_of_the_shifted_values():
    def compared(shift: float) -> Comparison | None:
        vehicle = np.arange(400)
        alone = (np.zeros(400, np.int64), vehicle, 1, 400)
        return Clusters(vehicle / 100 - 3 + shift, *alone).mean_comparison()

    found, shifted = compared(0.0), compared(1.1)
    assert found is not None
    assert shifted is not None
    assert p_beyond(found, -1.1) == pytest.approx(shifted.p_value, rel=0.1)
    assert p_beyond(found, 0.0) == found.p_value
    exact = Comparison(1.0, 1.0, 1.0, 0.0)
    assert (p_beyond(exact, 1.0), p_beyond(exact, 2.0)) == (1.0, 0.0)
