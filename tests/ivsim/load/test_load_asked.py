"""What a load test may ask, what is refused by name before anything starts, and what its stages make due."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ivsim import cli
from ivsim.audit.due import due_of
from ivsim.audit.result import Terms
from ivsim.load.asked import options_of
from ivsim.load.verdict import first_word
from ivsim.option_rules import run_options
from ivsim.runs import shards
from ivsim.runs.abort import Watch
from ivsim.runs.processes import scenario_of
from ivsim.runs.runner import StoppedEarly
from ivsim.thresholds import parse_conditions
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from simulator.fleet import emissions, messages_due, schedule
from simulator.scenario import Scenario, Stage

START = 1_700_000_000_000_000_000
STAGES = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 2.5]), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4
).filter(lambda stages: any(begin or end for _, begin, end in stages))


@pytest.mark.parametrize(
    ("words", "stages"),
    [
        (["60s:1000", "120s:5000"], ((60.0, 1000, 1000), (120.0, 5000, 5000))),
        (["1m30s:0-500"], ((90.0, 0, 500),)),
        (["1h:3", "2.5s:3-0", " 5m:0 "], ((3600.0, 3, 3), (2.5, 3, 0), (300.0, 0, 0))),
    ],
)
def test_stages_say_vehicles_and_duration(words, stages) -> None:
    options = options_of({}, words, 2.0)
    assert options.stages == stages
    assert options.vehicles == max(max(begin, end) for _, begin, end in stages)
    assert options.duration_s == sum(length_s for length_s, _, _ in stages)
    assert options.interval_s == 0.5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--stage", "60:1000"], "--stage '60:1000': write DURATION:VEHICLES, such as 60s:1000, or a ramp"),
        (["--stage", "60s"], "--stage '60s': write DURATION:VEHICLES"),
        (["--stage", "60s:ramp"], "--stage '60s:ramp': write DURATION:VEHICLES"),
        (["--stage", "0s:5"], "--stage '0s:5': write DURATION:VEHICLES"),
        (["--stage", "5d:5"], "--stage '5d:5': write DURATION:VEHICLES"),
        (["--stage", "60s:-5"], "--stage '60s:-5': write DURATION:VEHICLES"),
        (["--stage", "60s:0"], "--stage 60s:0: no vehicle sends in any stage"),
        (["--stage", "60s:70000"], "--vehicles 70000: "),
        (["--stage", "60s:5", "--vehicles", "7"], "--vehicles 7: --stage says how many vehicles send already"),
        (["--stage", "60s:5", "--duration", "7"], "--duration 7: --stage says how long already"),
        (["--rate", "2", "--interval", "1"], "--interval 1: --rate 2 says how often a vehicle sends already"),
        (["--rate", "0"], "--rate 0: messages per second of a vehicle, above 0"),
        (["--rate", "nan"], "--rate 'nan': expected a number"),
        (["--threshold", "p99(latency) < 1s"], "--threshold 'p99(latency) < 1s': nothing timed is called"),
        (["--threshold", "speed < 1"], "--threshold 'speed < 1': no figure speed: nearest are"),
        (["--abort-on", "delivery_ratio < 1"], "--abort-on 'delivery_ratio < 1': no figure delivery_ratio: allowed are"),
        (["--abort-on", "p95(end_to_end) > 1s"], "--abort-on 'p95(end_to_end) > 1s': no p95 of end_to_end"),
        (["--junit", "/"], "--junit /: Is a directory"),
        (["--junit", "missing/x.xml"], "--junit missing/x.xml: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name_and_nothing_starts(
    arguments: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ivsim", "load", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"ivsim: {says}")
    assert list(tmp_path.iterdir()) == []


def test_a_variable_of_no_option_is_refused_as_in_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IVSIM_RUN_LOSSES", "0.1")
    monkeypatch.setattr(sys, "argv", ["ivsim", "load", "--stage", "1s:1"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        "ivsim: IVSIM_RUN_LOSSES: no such option; there are IVSIM_RUN_ACK, "
    )


def test_stages_that_do_not_fit_the_run_are_refused() -> None:
    with pytest.raises(Refusal, match="--stage: they last 3 s, and --duration is 60"):
        run_options(stages=["3s:20"])
    with pytest.raises(
        Refusal, match="--stage: --vehicles is 20, and must be the most that send in a stage, 5"
    ):
        run_options(stages=["3s:5"], duration_s=3.0)
    with pytest.raises(ValidationError, match="the stages last 3 s, and duration_s is 4"):
        Scenario(duration_s=4.0, stages=(Stage(duration_s=3.0, begin_vehicles=1, end_vehicles=1),))
    with pytest.raises(ValidationError, match="a stage has 9 vehicles, and vehicles is 8"):
        Scenario(
            vehicles=8, duration_s=3.0, stages=(Stage(duration_s=3.0, begin_vehicles=9, end_vehicles=1),)
        )


@given(STAGES, st.sampled_from([0.3, 1.0]), st.integers(0, 999), st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_emissions_schedule_audit_and_shards_agree_on_what_is_due(stages, interval_s, seed, count) -> None:
    vehicles = max(max(begin, end) for _, begin, end in stages)
    options = run_options(
        stages=stages, vehicles=vehicles, duration_s=sum(s[0] for s in stages), interval_s=interval_s,
        format="small", seed=seed,
    )  # fmt: skip
    scenario = scenario_of(options)
    whole = list(schedule(scenario))
    assert [one[:4] for one in emissions(scenario, START)] == [tuple(one) for one in whole]
    assert messages_due(scenario) == len(whole)
    terms = Terms.of({"start_at_ns": START, "options": options.model_dump(mode="json")})
    assert {(key.vehicle_id, key.sequence): at - START for key, at in due_of(terms).items()} == {
        (vehicle_id(one.vehicle), one.sequence): one.due_offset_ns for one in whole
    }
    options = run_options(vehicles=vehicles, shards=str(min(count, vehicles)))
    dealt = [share.vehicles for share in shards.sender_shares(options)]
    assert sorted(chain.from_iterable(schedule(scenario, own) for own in dealt)) == sorted(whole)


def test_a_stage_changes_who_sends_and_a_ramp_grows_evenly() -> None:
    options = options_of({"seed": 5}, ["10s:2", "10s:2-10", "10s:10-0"], 10.0)
    due = list(schedule(scenario_of(options)))
    first = [one for one in due if one.due_offset_ns < 10 * 10**9]
    assert {one.vehicle for one in first} == {1, 2}
    assert len(first) == 2 * 10 * 10
    ramp = [one for one in due if 10 * 10**9 <= one.due_offset_ns < 20 * 10**9]
    # Vehicle k joins when the line from 2 to 10 reaches k: 5 in the middle of it has sent for the last 6.25 s.
    assert sum(one.vehicle == 5 for one in ramp) == pytest.approx(62.5, abs=1)
    assert len(ramp) == pytest.approx(10 * (20 + sum(10 - (k - 2) / 0.8 for k in range(3, 11))), abs=10)
    for vehicle in range(1, 11):
        own = [one.sequence for one in due if one.vehicle == vehicle]
        assert own == list(range(1, len(own) + 1))


def test_a_condition_ends_the_run_once_its_figure_is_known() -> None:
    watch = Watch(parse_conditions(["p99(end_to_end) > 2s", "unsent > 10"]))
    watch.check({"unsent": 10}, 1)
    watch.check({"end_to_end_latency_p99_ms": None, "unsent": 3}, 2)
    watch.check({"end_to_end_latency_p99_ms": 2_000.0}, 3)
    with pytest.raises(
        StoppedEarly, match=r"^--abort-on 'p99\(end_to_end\) > 2s': it was 2000.5 ms in second 4$"
    ):
        watch.check({"end_to_end_latency_p99_ms": 2_000.5}, 4)
    with pytest.raises(StoppedEarly, match=r"'unsent > 10': it was 11 in second 5"):
        watch.check({"unsent": 11}, 5)


@pytest.mark.parametrize(
    ("causes", "verdict", "word"),
    [
        ([], "valid", "valid"),
        (["clock_moved"], "degraded", "degraded"),
        (["clock_moved", "generator_limited"], "degraded", "generator-limited"),
        (["partial_ledger", "generator_limited"], "invalid", "generator-limited"),
        (["partial_ledger"], "invalid", "invalid"),
    ],
)
def test_the_generator_is_named_first(causes, verdict, word) -> None:
    validity = {"verdict": verdict, "causes": [{"name": name, "words": f"by {name}"} for name in causes]}
    said, reasons = first_word({"validity": validity})
    assert said == word
    if "generator_limited" in causes:
        assert reasons.startswith("by generator_limited")
    assert all(f"by {name}" in reasons for name in causes)


def test_a_run_without_figures_says_so() -> None:
    assert first_word({})[0] == "no figures"


@pytest.mark.parametrize("length_s", [10.0, 30_000_000.0])
def test_who_sends_is_said_of_many_at_once_as_of_one_and_in_whole_numbers(length_s: float) -> None:
    """The longer stage's products have 80 bits."""
    stage = Stage(duration_s=length_s, begin_vehicles=3, end_vehicles=9_000_000)
    scenario = Scenario(vehicles=9_000_000, interval_s=length_s / 100, duration_s=length_s, stages=(stage,))
    # Where one more vehicle begins to send, and a ns before.
    vehicles = np.array([1, 3, 4, 4, 77_777, 77_777, 9_000_000, 9_000_000])
    edges = [-(-(number - 3) * scenario.duration_ns // (9_000_000 - 3)) for number in vehicles.tolist()]
    offsets_ns = np.array([max(0, edge - index % 2) for index, edge in enumerate(edges)])
    said = [scenario.sends(*both) for both in zip(vehicles.tolist(), offsets_ns.tolist(), strict=True)]
    assert scenario.sending(vehicles, offsets_ns).tolist() == said
    assert set(said) == {True, False}
