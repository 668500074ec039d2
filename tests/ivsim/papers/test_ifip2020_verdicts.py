"""Verdicts of claims: known worlds in which a claim is true, false, or beyond the sample."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ivsim.papers import ifip2020
from ivsim.papers.ifip2020 import decisions, latency_claims, overhead_claims
from ivsim.papers.ifip2020.causes import CAUSES
from ivsim.papers.ifip2020.claims import CLAIMS
from ivsim.papers.ifip2020.codec_claims import FORMAT_CLAIMS, FormatCells
from ivsim.papers.ifip2020.decisions import some
from ivsim.papers.ifip2020.paper import (
    BLOCK_BYTES,
    CON,
    FACTORS,
    LOSSES,
    MODES,
    NON,
    SIZES,
    PaperCells,
    WholeCells,
    pings_together,
)
from ivsim.papers.ifip2020.reasons import REASONS, reasons
from ivsim.papers.reactive_batching.reasons import CAUSES_IN_SHORT
from ivsim.study.cells import DONE, Cell, Kept, Task
from ivsim.study.claims import Decided, Finding, decide, together
from ivsim.study.claims_report import answer, borne_out, cause_of, evidence_section
from ivsim.study.clusters import Clusters
from ivsim.study.engines.echo.observations import EchoObservations, latency_ratio
from ivsim.study.messages import keys_of
from ivsim.study.results import CellObservations, CellResult
from ivsim.study.statistics import Comparison


class World(EchoObservations):
    """Stands for one measured cell: messages of 20 vehicles in three repetitions, each independent of the others."""

    VEHICLES = 20
    REPETITIONS = 3
    overtaken: Any = 0
    mode = ""

    def __init__(
        self, mean: float, missing: int = 0, n: int = 400, spread: float = 20.0, overhead: float = 100.0
    ):
        every = self.REPETITIONS
        kept = [Kept(Task(Cell("", "", {}, None), k + 1), DONE, None, {}, Path()) for k in range(every)]
        super().__init__(Cell("", "", {}, SimpleNamespace(vehicles=self.VEHICLES)), kept)
        rng = np.random.default_rng(round(mean * 1_000) + missing)
        order = np.arange(n)
        found = self.__dict__
        found["latency_ms"] = rng.normal(mean, spread, n)
        found["latency_ms"][:missing] = np.nan
        found["delay_ms"] = found["latency_ms"]
        found["overhead_bytes"] = rng.normal(overhead, 3.0, n)
        found["keys"] = keys_of(order % every, order // every % self.VEHICLES, order)
        self.overtaken = missing

    @property
    def overheads(self) -> Any:
        return self._of_due(self.overhead_bytes).clusters()


def placed(sweep: str, mode: str, world: World, **values: Any) -> World:
    """Return the world as the measured cell of this place in a study."""
    world.mode, world.cell = mode, world.cell._replace(sweep=sweep, values=values)
    return world


def observations(make: Any, more: Iterable[World] = ()) -> PaperCells:
    grid = itertools.product(SIZES, MODES, LOSSES)
    return PaperCells([*(placed(f"loss_{s}", m, make(s, m, p), loss=p) for s, m, p in grid), *more])


def test_the_lowest_is_found_and_its_contrary_too():
    lowest = observations(lambda s, m, p: World(100.0 if m == NON else 200.0))
    highest = observations(lambda s, m, p: World(300.0 if m == NON else 200.0))
    equal = observations(lambda s, m, p: World(200.0))
    assert together(latency_claims.lowest_non(lowest)) == "agree"
    assert together(latency_claims.lowest_non(equal)) == "agree"
    assert together(latency_claims.lowest_non(highest)) == "disagree"


def test_flat_is_not_the_same_as_not_significantly_different():
    assert together(latency_claims.flat_non(observations(lambda s, m, p: World(150.0)))) == "agree"
    assert (
        together(latency_claims.flat_non(observations(lambda s, m, p: World(150.0 + p, n=8, spread=100.0))))
        == "cannot tell"
    )
    assert (
        together(latency_claims.flat_non(observations(lambda s, m, p: World(150.0 * (1 + 4 * p)))))
        == "disagree"
    )


def test_tcp_delivers_all_but_for_chance_and_what_is_on_its_way():
    """One of 2,000 is no more than 0 of 2,000; 5 % of those at 25 % loss are."""

    def lost(count: int, overtaken: int | None = None) -> PaperCells:
        def make(s: str, m: str, p: float) -> World:
            cell = World(100.0, missing=count * (m == "mqtt qos1" and p == 0.25))
            cell.overtaken = cell.missing if overtaken is None else overtaken * bool(cell.missing)
            return cell

        return observations(make)

    assert together(latency_claims.tcp_delivers(lost(0))) == "agree"
    assert together(latency_claims.tcp_delivers(lost(1))) == "agree"
    assert together(latency_claims.tcp_delivers(lost(8))) == "cannot tell"
    assert together(latency_claims.tcp_delivers(lost(40))) == "disagree"
    assert together(latency_claims.tcp_delivers(lost(1, overtaken=0))) == "agree"
    assert together(latency_claims.tcp_delivers(lost(40, overtaken=0))) == "cannot tell"


def test_non_loses_about_the_links_loss_or_thrice_that():
    about = observations(lambda s, m, p: World(100.0, missing=round(2_000 * p), n=2_000))
    thrice = observations(lambda s, m, p: World(100.0, missing=round(2_000 * min(1, 3 * p)), n=2_000))
    few = observations(lambda s, m, p: World(100.0, missing=round(10 * p), n=10))
    assert together(latency_claims.non_loses(about)) == "agree"
    assert together(latency_claims.non_loses(thrice)) == "disagree"
    assert together(latency_claims.non_loses(few)) == "cannot tell"


@pytest.mark.parametrize(
    ("some", "none", "n", "verdict"),
    [
        (0.03, 0.0, 1_350, "agree"),
        (0.03, 1 / 1_350, 1_350, "agree"),  # one is no more than none
        (0.03, 0.0, 100, "cannot tell"),
        (0.0, 0.0, 1_350, "disagree"),  # none where some were published
        (0.03, 0.03, 1_350, "disagree"),  # some where none were
        (1 / 450, 0.0, 450, "cannot tell"),
    ],
)
def test_con_loses_where_the_paper_says_and_nowhere_else(some: float, none: float, n: int, verdict: str):
    where = {("large", 0.1), ("large", 0.25), ("small", 0.25)}
    cells = observations(
        lambda s, m, p: World(1.0, missing=round(n * (some if (s, p) in where else none)), n=n)
    )
    assert together(latency_claims.con_loses(cells)) == verdict


ORDER = [100, 120, 200, 140, 160, 60, 80]


def stays(here: list[float], there: list[float], n: int = 400, spread: float = 5.0) -> list[Finding]:
    """Return what is found of an order with these means at the paper's rate, and those at every other one."""

    def worlds(sweep: str, means: list[float], **values: Any) -> list[World]:
        return [
            placed(sweep, mode, World(mean, n=n, spread=spread), **values)
            for mode, mean in zip(MODES, means, strict=True)
        ]

    others = [world for factor in FACTORS for world in worlds("rates", there, rate_factor=factor)]
    return latency_claims.order_over_rates(PaperCells([*worlds("loss_large", here, loss=0.0), *others]))


def test_an_order_that_turns_round_is_named():
    assert together(stays(ORDER, [m + 200 for m in ORDER])) == "agree"
    turned = stays(ORDER, [*(m + 200 for m in ORDER[:5]), 480, 290])
    assert together(turned) == "disagree"
    assert all("coap non" in f.text for f in turned if f.verdict == "disagree")
    assert together(stays(ORDER, ORDER, n=4, spread=100.0)) == "cannot tell"


def test_an_order_turns_round_by_more_than_the_margin_or_not_at_all():
    """A pair 3 ms one way and 3 ms the other, both significant, is alike: the RTT itself spreads by 5.6 ms."""
    near = [*ORDER[:5], 60.0, 63.0]
    assert together(stays(near, [*ORDER[:5], 63.0, 60.0], spread=1.0)) == "agree"
    assert together(stays(near, [*ORDER[:5], 70.0, 60.0], spread=1.0)) == "agree"
    far = [*ORDER[:5], 60.0, 70.0]
    assert together(stays(far, [*ORDER[:5], 70.0, 60.0], spread=1.0)) == "disagree"


def test_best_allows_an_equal_and_no_worse():
    def world(slower: float) -> PaperCells:
        return observations(
            lambda s, m, p: World(
                100.0 + slower * (m == "mqtt qos0"), n=4_000, spread=5.0, overhead=50.0 + 50 * (m != NON)
            )
        )

    assert together(latency_claims.best_choice(world(0.0))) == "agree"
    assert together(latency_claims.best_choice(world(3.0))) == "agree"
    assert together(latency_claims.best_choice(world(5.6))) == "cannot tell"
    assert together(latency_claims.best_choice(world(9.0))) == "disagree"


def best_case(added: float, ping: float = 2.5) -> PaperCells:
    rng = np.random.default_rng(1)
    cells = [
        placed("paper_ping", mode, World(ping + added, spread=0.1), rtt=latency_claims.PAPER_RTT)
        for mode in MODES
    ]
    return PaperCells(cells, (), pings_together(rng.normal(ping, 0.1, (3, 200))))


@pytest.mark.parametrize(
    ("added", "verdict"),
    [
        (3.0, "agree"),
        (1.9, "agree"),  # the paper's own ping is known to 0.19 ms
        (1.6, "not comparable"),
        (0.6, "not comparable"),
        (5.1, "agree"),
        (5.2, "cannot tell"),
        (6.0, "disagree"),
    ],
)
def test_one_machine_can_contradict_two_only_from_above(added: float, verdict: str):
    assert together(latency_claims.best_case(best_case(added))) == verdict


def test_overhead_has_one_margin_within_a_claim():
    def order(con: float, non: float = 50.0) -> PaperCells:
        bytes_of = {NON: non, "mqtt qos0": 100.0, CON: con, "mqtt qos1": 160.0}
        bytes_of |= {"amqp auto": 250.0, "amqp manual": 300.0, "mqtt qos2": 350.0}
        return observations(lambda s, m, p: World(100.0, n=4_000, overhead=bytes_of[m]))

    assert together(overhead_claims.overhead_order(order(150.0))) == "agree"
    assert together(overhead_claims.overhead_order(order(150.0, non=120.0))) == "cannot tell"  # 20 of 25 B
    assert together(overhead_claims.overhead_order(order(150.0, non=130.0))) == "disagree"
    assert together(overhead_claims.overhead_order(order(190.0))) == "disagree"  # 30 B from MQTT 1


def test_a_ratio_of_latencies_is_that_of_the_messages_that_both_received():
    still, lossy = World(100.0), World(100.0)
    slow = np.random.default_rng(5).exponential(1_000.0, still.latency_ms.size)
    for cell in (still, lossy):
        cell.latency_ms += slow
    lossy.latency_ms[slow > 500] = np.nan
    ratio = latency_ratio(lossy, still)
    assert ratio.estimate == pytest.approx(1.0)
    assert lossy.latency().estimate < 0.5 * still.latency().estimate


def test_messages_above_a_block_are_looked_up_where_they_were_sent_whole():
    more = []
    for mode, mean in ((NON, 100.0), (CON, 150.0)):
        more += [placed("whole_large", mode, World(mean), loss=loss) for loss in LOSSES]
        more += [placed("whole_sizes", mode, World(mean), message_bytes=1400)]
        more += [placed("sizes", mode, World(size), message_bytes=size) for size in (1000, 1400, 2500)]
    cells = observations(lambda s, m, p: World(300.0 if (s, m) == ("large", NON) else 200.0), more)
    whole = WholeCells(cells)
    assert whole.get("loss_large", NON, loss=0.0).received_ms.mean() == pytest.approx(100.0, abs=5)
    assert whole.get("loss_small", NON, loss=0.0).received_ms.mean() == pytest.approx(200.0, abs=5)
    assert whole.get("loss_large", "mqtt qos0", loss=0.0).received_ms.mean() == pytest.approx(200.0, abs=5)
    assert whole.get("sizes", NON, message_bytes=1400).received_ms.mean() == pytest.approx(100.0, abs=5)
    # One block, or more than a datagram holds: the same datagrams either way.
    assert whole.get("sizes", NON, message_bytes=BLOCK_BYTES - 24).received_ms.mean() == pytest.approx(
        1_000, abs=9
    )
    assert whole.get("sizes", NON, message_bytes=2500).received_ms.mean() == pytest.approx(2_500, abs=9)
    assert (whole.taken(), whole.taken()) == (3, None)
    # In blocks NON is the slowest, in one datagram the fastest: which it was, the paper does not say.
    one = some(cells, (1,))[0]
    assert {name: together(found) for name, found in one.settings.items()} == {
        "blocks of 1,024 B": "disagree",
        "one datagram": "agree",
    }
    assert one.verdict == "depends"
    assert cause_of(one) == "agrees with one datagram, disagrees with blocks of 1,024 B"


def test_a_pair_is_turned_round_out_of_all_conditions():
    """By 1.2 half-widths both ways it is in one of two conditions, and by chance in one of thirty."""

    def at(shift: float) -> tuple[str, Comparison, float]:
        return ("", Comparison(shift, shift - 1.0, shift + 1.0, 0.0187), 0.0)

    turned, others = [at(1.2), at(-1.2)], [at(0.0)] * 28
    assert latency_claims._pair_stays(("a", "b"), turned, kept=False, rank="").verdict == "disagree"
    assert (
        latency_claims._pair_stays(("a", "b"), [*turned, *others], kept=False, rank="").verdict
        == "cannot tell"
    )


def test_repetitions_that_are_not_valid_decide_no_claim(monkeypatch: pytest.MonkeyPatch):
    cell = Cell("one", "loss_large", {"mode": NON, "loss": 0.0}, None)
    degraded = {"validity": {"verdict": "degraded", "causes": []}}
    kept = [Kept(Task(cell, n), DONE, None, degraded if n == 2 else {}, Path()) for n in (1, 2, 3)]
    seen: list[list[Kept]] = []
    monkeypatch.setattr(decisions, "results", lambda _: [CellResult(cell, kept), CellResult(cell, kept[1:2])])
    monkeypatch.setattr(decisions, "EchoObservations", lambda _cell, some, *_: seen.append(some))
    for name in ("pings", "pings_of_sweep", "PaperCells"):
        monkeypatch.setattr(decisions, name, lambda *_: [])
    decisions.observations_of(SimpleNamespace(path=Path()))
    assert [[one.task.repetition for one in some] for some in seen] == [[1, 3]]


def test_a_claim_without_three_repetitions_is_not_decided():
    class Once(World):
        REPETITIONS = 1

    means = ((NON, 100.0), (CON, 200.0))
    whole = [placed("whole_large", mode, World(mean), loss=p) for p in LOSSES for mode, mean in means]
    many = observations(lambda s, m, p: World(100.0 if m == NON else 200.0), whole)
    few = observations(lambda s, m, p: (Once if p == 0.25 else World)(100.0 if m == NON else 200.0), whole)
    for cells, verdict in ((many, "agree"), (few, "cannot tell")):
        assert some(cells, (1,))[0].verdict == verdict
    assert cause_of(some(few, (1,))[0]) == "1 of at least 3 repetitions"


def test_without_any_measurement_nothing_can_be_told():
    for claim in CLAIMS:
        assert together(claim.decide(PaperCells([]))) == "cannot tell", claim.number


def test_claims_and_formats_are_twenty_and_the_answer_counts_them():
    claims = [*CLAIMS, *FORMAT_CLAIMS]
    assert sorted(claim.number for claim in claims) == list(range(1, 21))
    decided = [Decided(c, [Finding("agree" if c.number % 2 else "disagree", "")]) for c in claims]
    decided.sort(key=lambda one: one.number)
    assert answer(decided).startswith("Of the 20 claims 10 agree (1, 3, 5")


class Samples(CellObservations):
    """Stands for what was kept of one format: a value of each of 20 vehicles, in three repetitions."""

    def __init__(self, seed: int, **means: float) -> None:
        self.seed, self.means = seed, means

    def clusters(self, metric: str) -> Clusters | None:
        if metric not in self.means:
            return None
        values = self.means[metric] * np.random.default_rng(self.seed).normal(1.0, 0.001, 60)
        return Clusters(values, np.arange(60) % 3, np.arange(60) // 3, 3, 20)


def result(name: str, record: str | None = None, times: int = 3, **means: float) -> CellResult:
    cell = Cell(name, "", {}, SimpleNamespace(format=name, record=record))
    kept = [Kept(Task(cell, k + 1), DONE, None, {}, Path()) for k in range(times)]
    return CellResult(cell, kept, Samples(len(name), **means))


PYTHON = [
    result("protobuf", "current_status", payload_bytes_mean=1_000.0),
    result("flatbuffers", "current_status", payload_bytes_mean=3_000.0),
    result("json", "current_status", payload_bytes_mean=11_000.0),
]


def cpp(
    flat_bytes: float = 3_000.0,
    build_us: float = 14.0,
    decode_us: float = 0.02,
    three_us: float = 0.03,
    peak_mib: float = 3.0,
    times: int = 3,
) -> FormatCells:
    """Return cells of C++ in which Protobuf has 1,000 B, 11 us to build, 11 us to decode and 5 MiB."""
    proto = {
        "payload_bytes_mean": 1_000.0,
        "build_encode_us": 11.0,
        "decode_us": 11.0,
        "three_fields_us": 12.0,
    }
    flat = {"build_encode_us": build_us, "decode_us": decode_us, "three_fields_us": three_us}
    peaks = [{f"{way}_peak_mib": mib for way in ("encode", "decode")} for mib in (5.0, peak_mib)]
    found = [
        result("protobuf", times=times, **proto, **peaks[0]),
        result("flatbuffers", times=times, payload_bytes_mean=flat_bytes, **flat, **peaks[1]),
    ]
    return FormatCells(PYTHON, found)


@pytest.mark.parametrize(
    ("cells", "verdicts"),
    [
        (cpp(), ["agree", "agree", "agree"]),
        (cpp(flat_bytes=1_500.0), ["disagree", "agree", "agree"]),
        (cpp(flat_bytes=3_500.0), ["cannot tell", "agree", "agree"]),
        (cpp(build_us=9.0), ["agree", "disagree", "agree"]),
        (cpp(build_us=11.0), ["agree", "cannot tell", "agree"]),
        (cpp(decode_us=5.6), ["agree", "disagree", "agree"]),  # faster, and not far
        (cpp(decode_us=5.4), ["agree", "agree", "agree"]),
        (cpp(three_us=7.0), ["agree", "disagree", "agree"]),
        (cpp(peak_mib=6.0), ["agree", "agree", "disagree"]),
        (cpp(peak_mib=5.05), ["agree", "agree", "cannot tell"]),  # contrary by half of what matters
        (FormatCells(PYTHON), ["agree", "cannot tell", "cannot tell"]),
        (FormatCells(PYTHON, (), "g++ missing"), ["agree", "not comparable", "not comparable"]),
        (FormatCells([]), ["cannot tell", "cannot tell", "cannot tell"]),
    ],
)
def test_formats_are_decided_from_the_libraries_that_the_paper_measured(
    cells: FormatCells, verdicts: list[str]
):
    decided = decide(FORMAT_CLAIMS, cells)
    assert [one.verdict for one in decided] == verdicts
    if "not comparable" in verdicts:
        assert "g++ missing" in evidence_section(decided)


def test_formats_are_not_decided_from_two_repetitions():
    assert [one.found for one in decide(FORMAT_CLAIMS, cpp(times=2))] == ["agree"] * 3
    assert [one.verdict for one in decide(FORMAT_CLAIMS, cpp(times=2))] == ["cannot tell"] * 3


class Everything:
    """Stands for the observations of both studies."""

    def __init__(self, sent: PaperCells) -> None:
        self.sent = self.due = self.bare = sent
        self.formats = FormatCells([])
        self.claims = None


def test_reasons_say_only_what_this_run_bears_out():
    """Every number of a reason is of the run: without measurements none is given, and premises are checked."""
    nothing = Everything(PaperCells([]))
    for number, reason in REASONS.items():
        decided = Decided(next(c for c in (*CLAIMS, *FORMAT_CLAIMS) if c.number == number), [])
        said = " ".join(reason(nothing, decided))
        assert not any(text in said for text in ("not measured", "None", "nan")), (number, said)
    # 40 of 100 fail: said with this run's number; 10 of 100: no reason any more.
    claim = Decided(next(c for c in CLAIMS if c.number == 12), [])
    many = Everything(observations(lambda s, m, p: World(100.0, missing=160 * (p == 0.25))))
    few = Everything(observations(lambda s, m, p: World(100.0, missing=40 * (p == 0.25))))
    assert "40.0%" in " ".join(REASONS[12](many, claim))
    assert REASONS[12](few, claim) == []


def test_a_reason_is_given_for_a_contradicted_claim_alone():
    world = Everything(observations(lambda s, m, p: World(300.0 if m == NON else 200.0)))
    decided = decide([c for c in CLAIMS if c.number in (1, 6)], world.sent)
    assert [one.verdict for one in decided] == ["disagree", "agree"]
    found = reasons(world, decided)
    assert list(found) == [1]
    assert borne_out(found, CAUSES) == {}  # its blocks were not measured
    assert borne_out({1: ["CoAP carries at most 1,024 bytes.", "More."]}, CAUSES) == {1: CAUSES[1][0].text}
    first, second = evidence_section(decided, {1: ["A reason."]}).split("### 6.")
    assert "A reason." in first
    assert "at every loss rate" in second


def test_causes_are_short_and_each_has_a_sentence_that_may_bear_it_out():
    """The sentences are looked for where they are made: one that is worded anew must not take a cause with it."""
    made = {"ifip2020": CAUSES, "reactive_batching": CAUSES_IN_SHORT}
    for paper, causes in made.items():
        source = Path(ifip2020.__file__).parents[1].joinpath(paper, "reasons.py").read_text()
        for cause in itertools.chain.from_iterable(causes.values()):
            assert len(cause.text.split()) <= 15
            assert f'"{cause.borne_by}' in source, cause
