"""Verdicts of claims: known worlds in which a claim is true, false, or beyond the sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ivsim.study.evidence import Evidence
from ivsim.study.ifip import claims, formats
from ivsim.study.ifip.decisions import Decided, answer
from ivsim.study.ifip.paper import LOSSES, MODES, NON, SIZES
from ivsim.study.ifip.table import CLAIMS
from ivsim.study.ifip.verdicts import Finding, Ordering, inside, ordered, together
from ivsim.study.statistics import Comparison, Interval, mean_interval, ratio_interval


class World:
    """Stands for one measured cell."""

    def __init__(
        self, mean: float, missing: int = 0, n: int = 400, spread: float = 20.0, overhead: float = 100.0
    ):
        rng = np.random.default_rng(round(mean * 1_000) + missing)
        self.latency_ms = rng.normal(mean, spread, n)
        self.latency_ms[:missing] = np.nan
        self.delay_ms = self.latency_ms
        self.overhead_bytes = rng.normal(overhead, 3.0, n)
        self.keys = np.arange(n)
        self.due, self.missing, self.overtaken = n, missing, missing

    @property
    def received_ms(self) -> Any:
        return self.latency_ms[np.isfinite(self.latency_ms)]

    def latency(self) -> Interval:
        return mean_interval(self.received_ms)

    def unsuccessful(self) -> Interval:
        return ratio_interval(self.missing, self.due)


def evidence(make: Any, ping_ms: Any = ()) -> Evidence:
    found = Evidence([], ping_ms)
    for size in SIZES:
        for mode in MODES:
            for loss in LOSSES:
                found._cells[f"loss_{size}", mode, (("loss", str(loss)),)] = make(size, mode, loss)
    return found


def test_three_values():
    agree, contrary, open_ = Finding("agree", ""), Finding("disagree", ""), Finding("cannot tell", "")
    assert together([agree, agree]) == "agree"
    assert together([agree, open_]) == "cannot tell"
    assert together([agree, open_, contrary]) == "disagree"
    assert together([]) == "cannot tell"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(2.1, 4.9, "agree"), (5.1, 6.0, "disagree"), (1.0, 2.5, "cannot tell"), (0.1, 1.9, "disagree")],
)
def test_an_interval_lies_inside_outside_or_across(low: float, high: float, verdict: str):
    assert inside("x", Interval((low + high) / 2, low, high, 9), 2.0, 5.0).verdict == verdict
    assert inside("x", Interval(None, None, None, 0), 2.0, 5.0).verdict == "cannot tell"


def test_an_ordering_is_significant_contrary_or_open():
    found = ordered(
        [
            Ordering("as claimed", Comparison(5.0, 4.0, 6.0, 1e-6)),
            Ordering("contrary", Comparison(-5.0, -6.0, -4.0, 1e-6)),
            Ordering("noise", Comparison(0.1, -1.0, 1.2, 0.8)),
            Ordering("not measured", None),
        ]
    )
    assert [f.verdict for f in found] == ["agree", "disagree", "cannot tell", "cannot tell"]


def test_the_lowest_is_found_and_its_contrary_too():
    lowest = evidence(lambda s, m, p: World(100.0 if m == NON else 200.0))
    highest = evidence(lambda s, m, p: World(300.0 if m == NON else 200.0))
    assert together(claims.lowest_non(lowest)) == "agree"
    assert together(claims.lowest_non(highest)) == "disagree"


def test_flat_is_not_the_same_as_not_significantly_different():
    assert together(claims.flat_non(evidence(lambda s, m, p: World(150.0)))) == "agree"
    assert (
        together(claims.flat_non(evidence(lambda s, m, p: World(150.0, n=8, spread=100.0)))) == "cannot tell"
    )
    assert together(claims.flat_non(evidence(lambda s, m, p: World(150.0 * (1 + 4 * p))))) == "disagree"


def test_a_lost_message_of_tcp_contradicts_and_one_on_its_way_does_not():
    none = evidence(lambda s, m, p: World(100.0))
    lost = evidence(lambda s, m, p: World(100.0, missing=int(m == "mqtt qos1" and p == 0.25)))
    assert together(claims.tcp_delivers(none)) == "agree"
    assert together(claims.tcp_delivers(lost)) == "disagree"

    def late(s: str, m: str, p: float) -> World:
        cell = World(100.0, missing=int(m == "mqtt qos1" and p == 0.25))
        cell.overtaken = 0
        return cell

    assert together(claims.tcp_delivers(evidence(late))) == "cannot tell"


def test_non_loses_about_the_links_loss_or_thrice_that():
    about = evidence(lambda s, m, p: World(100.0, missing=round(2_000 * p), n=2_000))
    thrice = evidence(lambda s, m, p: World(100.0, missing=round(2_000 * min(1, 3 * p)), n=2_000))
    few = evidence(lambda s, m, p: World(100.0, missing=round(10 * p), n=10))
    assert together(claims.non_loses(about)) == "agree"
    assert together(claims.non_loses(thrice)) == "disagree"
    assert together(claims.non_loses(few)) == "cannot tell"


def test_con_loses_where_the_paper_says_and_nowhere_else():
    where = {("large", 0.1), ("large", 0.25), ("small", 0.25)}
    assert (
        together(claims.con_loses(evidence(lambda s, m, p: World(1.0, missing=3 * ((s, p) in where)))))
        == "agree"
    )
    assert together(claims.con_loses(evidence(lambda s, m, p: World(1.0, missing=3)))) == "disagree"
    assert together(claims.con_loses(evidence(lambda s, m, p: World(1.0, n=100)))) == "cannot tell"
    assert together(claims.con_loses(evidence(lambda s, m, p: World(1.0, n=5_000)))) == "disagree"


def test_an_order_that_turns_round_is_named():
    def cells(means: list[float]) -> dict[str, Any]:
        return {mode: World(mean) for mode, mean in zip(MODES, means, strict=True)}

    kept = [
        ("a", cells([100, 120, 200, 140, 160, 80, 90])),
        ("b", cells([300, 320, 400, 340, 360, 280, 290])),
    ]
    turned = [
        ("a", cells([100, 120, 200, 140, 160, 80, 90])),
        ("b", cells([300, 320, 400, 340, 360, 480, 290])),
    ]
    assert together(claims._order_stays(kept)) == "agree"
    found = claims._order_stays(turned)
    assert together(found) == "disagree"
    assert any("coap non" in f.words for f in found)


def test_without_any_measurement_nothing_can_be_told():
    for claim in CLAIMS:
        assert together(claim.decide(Evidence([]))) == "cannot tell", claim.number


def test_claims_and_formats_are_twenty_and_the_answer_counts_them():
    numbers = [claim.number for claim in CLAIMS] + list(formats.FORMAT_CLAIMS)
    assert sorted(numbers) == list(range(1, 21))
    decided = [Decided(n, "", "", "agree" if n % 2 else "disagree", []) for n in sorted(numbers)]
    assert answer(decided).startswith("Of the 20 claims 10 agree (1, 3, 5")


def test_formats_are_decided_from_the_serialisation_study():
    found = {
        "sizes": {name: {"all": {"mean": mean}} for name, mean in (("protobuf", 1_000), ("flatbuffers", 3_000), ("json", 11_000))},
        "thesis": [
            {"format": "protobuf", "groups": 8, "encode_us": 10.0, "decode_us": 10.0},
            {"format": "flatbuffers", "groups": 8, "encode_us": 20.0, "decode_us": 1.0},
        ],
        "times": [
            {"format": name, "operation": "three_fields", "variant": "rigid", "mean_us": mean}
            for name, mean in (("protobuf", 5.0), ("flatbuffers", 1.0))
        ],
        "memory": [
            {"format": name, "direction": way, "before_kib": 100, "peak_kib": peak}
            for name, peak in (("protobuf", 150), ("flatbuffers", 120))
            for way in ("encode", "decode")
        ],
    }  # fmt: skip
    assert [together(formats.decide(n, found)) for n in (17, 18, 19)] == ["agree"] * 3
    assert [together(formats.decide(n, None)) for n in (17, 18, 19)] == ["cannot tell"] * 3
    found["sizes"]["flatbuffers"]["all"]["mean"] = 1_500
    assert together(formats.decide(17, found)) == "disagree"
