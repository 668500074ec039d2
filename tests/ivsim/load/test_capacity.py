"""What a search for the highest load may ask, how a run is judged, which part gave way, and what is printed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ivsim import cli
from ivsim.commands import load_capacity
from ivsim.load import capacity_report
from ivsim.load.capacity import Searched, Step, step_of
from ivsim.load.capacity_asked import asked
from ivsim.load.capacity_words import result_of, summary_of
from ivsim.load.saturation import Counters, Crossing, Queue, counters_of, saturated
from ivsim.load.service_level import judgement, service_level
from ivsim.option_rules import run_options
from ivsim.runs.counters import Sample
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import Outcome
from ivsim.search import Ask, Found, Verdict
from ivsim.thresholds import EXIT_MISSED, parse

MACHINE = {"cores": 2}
VALID = {"validity": {"verdict": "valid", "causes": []}}
GOOD = {**VALID, "delivery_ratio": 1.0, "end_to_end_latency_p99_ms": 900.0, "end_to_end_latency_p50_ms": 40.0}
LATE = {
    "validity": {"verdict": "degraded", "causes": [{"name": "generator_limited", "words": "late by 70 ms"}]}
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "3"], "--from: needs --find-capacity"),
        (["--to", "0"], "--to: needs --find-capacity"),
        (["--resolution", "0.1"], "--resolution: needs --find-capacity"),
        (["--find-capacity", "--stage", "5s:3"], "--stage: has no effect with --find-capacity"),
        (["--find-capacity", "--abort-on", "unsent > 1"], "--abort-on: has no effect with --find-capacity"),
        (["--find-capacity", "--junit", "x.xml"], "--junit: has no effect with --find-capacity"),
        (["--find-capacity", "--from", "0"], "--from 0: messages/s, a whole number from 1 to"),
        (["--find-capacity", "--from", "9", "--to", "3"], "--to 3: below --from 9"),
        (["--find-capacity", "--resolution", "0"], "--resolution 0: a share from 0.01 to 0.5"),
        (["--find-capacity", "--rate", "1", "--vehicles", "3"], "--vehicles 3: with --rate 1 --find-capacity raises"),
        (["--find-capacity", "--interval", "1", "--vehicles", "3"], "--vehicles 3: with --interval 1 --find-capacity"),
        (["--find-capacity", "--rate", "1", "--interval", "2"], "--interval 2: --rate 1 says how often"),
        (["--find-capacity", "--rate", "0"], "--rate 0: messages per second of a vehicle, above 0"),
        (["--find-capacity", "--rate", "1", "--to", "70000"], "--vehicles 70000: "),
        (["--find-capacity", "--topology", "echo"], "--find-capacity: needs --topology gateway"),
        (["--find-capacity", "--duration", "5", "--warmup", "5"], "--warmup 5: must be shorter than --duration 5"),
        (["--find-capacity", "--threshold", "speed < 1"], "--threshold 'speed < 1': no figure speed"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name_and_nothing_starts(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ivsim", "load", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"ivsim: {says}")
    assert list(tmp_path.iterdir()) == []


def test_the_rate_of_a_fleet_is_raised_unless_the_rate_is_given() -> None:
    fleet = asked({"vehicles": 10}, None, 50, 400, None)
    assert fleet.raised == "messages/s"
    step = fleet.of(Ask("step", 200))
    assert (step.vehicles, step.interval_s, step.duration_s, step.warmup_s) == (10, 0.05, 30.0, 5.0)
    users = asked({}, 2.0, None, 100, 0.1)
    assert (users.raised, users.bounds.first, users.bounds.resolution_ratio) == ("vehicles", 20, 0.1)
    assert (users.of(Ask("step", 70)).vehicles, users.of(Ask("step", 70)).interval_s) == (70, 0.5)
    assert asked({"interval_s": 4.0}, None, 30, 60, None).of(Ask("bisection", 45)).vehicles == 45


def test_a_confirmation_measures_three_times_as_long_with_seeds_of_its_own() -> None:
    search = asked({"duration_s": 12.0, "warmup_s": 2.0, "seed": 7}, None, None, None, None)
    runs = [search.of(Ask("confirmation", 60, repetition)) for repetition in range(3)]
    assert [(one.duration_s, one.seed) for one in runs] == [(32.0, 8), (32.0, 9), (32.0, 10)]


def test_the_level_is_the_modes_own_until_thresholds_replace_it() -> None:
    words = service_level(run_options(), ()).words
    assert words == "delivery_ratio == 1, p99(end_to_end) <= 1s, consumer lag not growing"
    assert "delivery_ratio" not in service_level(run_options(protocol="coap", mode="non"), ()).words
    own = service_level(run_options(), [parse("p99(end_to_end) < 2s")])
    assert own.words == "p99(end_to_end) < 2s"


@pytest.mark.parametrize(
    ("metrics", "growing", "error", "verdict", "says"),
    [
        (GOOD, False, None, "met", ""),
        (GOOD, True, None, "missed", "consumer lag not growing: missed"),
        (GOOD, None, None, "missed", "consumer lag not growing: not measured"),
        ({**GOOD, "delivery_ratio": 0.99}, False, None, "missed", "delivery_ratio == 1: missed: 0.99"),
        ({**GOOD, "end_to_end_latency_p99_ms": None}, False, None, "missed", "p99(end_to_end) <= 1s: not measured"),
        # The load was not the one that was asked for: no word on the system, whatever the thresholds say.
        ({**GOOD, **LATE}, True, None, "generator", "generator-limited: late by 70 ms"),
        ({**GOOD, "validity": {"verdict": "degraded", "causes": [{"name": "clock_moved", "words": "w"}]}},
         False, None, "generator", "degraded: w"),
        ({**GOOD, "validity": {"verdict": "invalid", "causes": [{"name": "certificate_off", "words": "off"}]}},
         False, None, "invalid", "invalid: off"),
        ({}, None, "kafka ended with exit code 1\nlog", "broke", "kafka ended with exit code 1"),
    ],
)  # fmt: skip
def test_a_run_is_judged(metrics, growing, error, verdict, says) -> None:
    said = judgement(service_level(run_options(), ()), metrics, growing, error)
    assert (said.verdict, said.reasons) == (verdict, says)


def samples(
    seconds: int, rate: float, twin_rate: float, *, sender: float = 0.3, spark: float = 0.5
) -> list[Sample]:
    """Return the samples of a run whose twin takes `twin_rate` messages/s of `rate`."""
    return [
        Sample(
            at_s=float(at), cpu_s={"sender": sender * at, "spark": spark * at}, memory_bytes={},
            busy_s=1_000 + 1.5 * at,
            emitted=round(rate * max(0, at)), acknowledged=round(rate * max(0, at)), received=round(rate * max(0, at)),
            appended=40 + round(rate * max(0, at)), in_twin=round(twin_rate * max(0, at)),
        )
        for at in range(-1, seconds)
    ]  # fmt: skip


def counted(found: list[Sample], rate: float, **more: Any) -> Counters:
    said = {"peer": "mosquitto", "acknowledged_by_broker": True, "all_cores": 2, "queue_drops": 0, **more}
    return counters_of(found, from_s=5, to_s=30, messages_per_s=rate, **said)


def test_a_twin_that_falls_behind_is_found_in_the_counters() -> None:
    good = counted(samples(31, 100, 100), 100)
    assert good.lag_growing is False
    assert good.cores == {"sender": pytest.approx(0.3), "spark": pytest.approx(0.5)}
    assert good.other_cores == pytest.approx(0.7)
    behind = counted(samples(31, 100, 97), 100)
    assert behind.lag_growing is True
    said = saturated(behind, 100)
    assert said.part == "spark"
    assert said.words == "messages waiting for spark grew from 26 to 80"


@pytest.mark.parametrize(("twin_rate", "growing"), [(885, False), (840, True)])
def test_a_count_that_is_known_late_is_held_against_its_own_time(twin_rate: int, growing: bool) -> None:
    """The counts of the twins come every second, the samples every 1.03 s: now a fresh one, now one a second old."""
    made = []
    for index in range(-1, 20):
        at_s = 1.03 * index
        counted_at_s = float(int(at_s)) if at_s > 0 else at_s
        made.append(
            samples(1, 885, 885)[0]._replace(
                at_s=at_s, emitted=round(885 * max(0.0, at_s)), acknowledged=round(885 * max(0.0, at_s)),
                received=round(885 * max(0.0, at_s)), appended=40 + round(885 * max(0.0, at_s)),
                in_twin=round(twin_rate * max(0.0, counted_at_s)), in_twin_at_s=counted_at_s,
            )
        )  # fmt: skip
    said = {"peer": "mosquitto", "acknowledged_by_broker": True, "all_cores": 2, "queue_drops": 0}
    found = counters_of(made, from_s=5, to_s=20, messages_per_s=885, **said)
    assert found.lag_growing is growing
    assert (found.queues["spark"].begin < 1) is not growing


def test_what_was_not_counted_is_not_known() -> None:
    none = [one._replace(appended=None) for one in samples(31, 100, 100)]
    assert counted(none, 100).lag_growing is None
    assert counted([], 100) == Counters({}, None, 2, {}, None, 0)
    assert saturated(counted([], 100, queue_drops=None), 100).part is None


def test_one_full_thread_and_a_full_machine_are_said() -> None:
    full = counted(samples(31, 100, 100, sender=0.97), 100)
    said = saturated(full, 100)
    assert said.part == "sender"
    assert "sender used 0.97 of the one core that it can" in said.words
    busy = Counters({"spark": 1.2, "kafka": 0.5}, 0.2, 2, {}, False, 12)
    assert saturated(busy, 100).part == "link"
    assert (
        "1.90 of this machine's 2 cores were busy (spark 1.20, kafka 0.50, other programs 0.20)"
        in saturated(busy, 100).words
    )


def test_a_gateway_that_falls_behind_its_broker_is_told_from_the_link() -> None:
    slow = [one._replace(received=round(0.8 * one.received)) for one in samples(31, 100, 80)]
    assert saturated(counted(slow, 100), 100).part == "gateway"
    coap = counted(slow, 100, peer="gateway", acknowledged_by_broker=False)
    assert saturated(coap, 100).part == "link or gateway"


def test_latency_that_is_the_links_own_is_the_links() -> None:
    calm = counted(samples(31, 100, 100), 100)
    said = saturated(calm, 100, (), Crossing(1_650.0, 1_711.0))
    assert said == ("link", "most is the link's: one-way delay p99 1,650 ms, end-to-end 1,711 ms")
    assert saturated(calm, 100, (), Crossing(650.0, 1_711.0)).part is None
    # What gathers before a part is that part's, whatever else there was.
    assert saturated(counted(samples(31, 100, 97), 100), 100, (), Crossing(1_650.0, 1_711.0)).part == "spark"
    search = asked({}, None, 100, 200, None)
    late = {**GOOD, "end_to_end_latency_p99_ms": 1_711.0, "one_way_delay_p99_ms": 1_650.0}
    behind = parse("p99(processing_delay) <= 10ms")
    for link, asked_for, part in (("auto", (), "link"), ("direct", (), None), ("auto", (behind,), None)):
        options = search.of(Ask("step", 100)).model_copy(update={"link": link})
        step = step_of(
            Ask("step", 100),
            options,
            service_level(options, asked_for),
            Outcome(metrics=late),
            samples(31, 100, 100),
        )
        assert step.saturation is not None
        assert step.saturation.part == part


def searched(loads: dict[int, Verdict], found: Found | None, stopped: Interrupted | None = None) -> Searched:
    search = asked({}, None, 100, 12_345, None)
    level = service_level(search.options, ())
    steps = []
    for load, verdict in loads.items():
        metrics: dict[str, Any] = {**GOOD, "window_from_s": 5.0, "window_to_s": 30.0, "due": 25 * load}
        metrics |= {
            "delivered": 25 * load,
            "emission_lag_p99_ms": 12_345.6,
            "end_to_end_latency_p99_ms": 98_765.4,
        }
        if verdict == "met":
            metrics["end_to_end_latency_p99_ms"] = 900.0
        if verdict == "generator":
            metrics |= LATE
        ask = Ask("confirmation", load)
        steps.append(step_of(ask, search.of(ask), level, Outcome(metrics=metrics), samples(120, load, load)))
    assert [one.verdict for one in steps] == list(loads.values())
    return Searched(search, level, tuple(steps), found, stopped)


@pytest.mark.parametrize(
    ("made", "word", "load", "code", "says"),
    [
        (searched({100: "met", 104: "missed"}, Found(100, 104, "missed")), "capacity", 100, 0,
         "while other programs used up to 0.70 of its {cores} cores. 104 messages/s: p99(end_to_end) <= 1s: missed: 98765"),
        (searched({100: "met", 104: "generator"}, Found(100, 104, "generator")), "at least", 100, 0,
         "The generator, and not the system, gave way at 104 messages/s: generator-limited: late by 70 ms"),
        (searched({12_345: "met"}, Found(12_345, None, None)), "at least", 12_345, 0, "nothing failed up to --to"),
        (searched({100: "missed"}, Found(None, 100, "missed")), "no capacity", None, EXIT_MISSED, "Begin lower (--from)"),
        (searched({100: "met", 99: "missed"}, Found(None, 99, "missed")), "no capacity", None, EXIT_MISSED,
         "up to 100 messages/s met the service level once, and none was confirmed"),
        (searched({100: "met"}, None, Interrupted(2)), "stopped", 100, 130, "100 messages/s met the service level, not"),
        (searched({}, None, Interrupted(15)), "stopped", None, 143, "no load was found"),
    ],
)  # fmt: skip
def test_the_result_says_whose_limit_it_is(made, word, load, code, says) -> None:
    result = result_of(made)
    assert (result.word, result.load, result.exit_code) == (word, load, code)
    assert says.replace("{cores}", str(len(os.sched_getaffinity(0)))) in result.words
    summary = json.loads(json.dumps(summary_of(made, MACHINE)))
    assert summary["on"] == "this machine"
    assert summary["capacity"] == (None if word == "stopped" else load)
    assert len(summary["steps"]) == len(made.steps)


def test_table_and_report_hold_every_step_and_fit_80_columns(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = searched(
        {10_000: "met", 12_345: "missed", 11_111: "generator"}, Found(10_000, 11_111, "generator")
    )
    for check in ("check_memory", "check_memory_with_link", "preflight", "ensure_privileges"):
        monkeypatch.setattr(load_capacity, check, lambda *_: None)
    monkeypatch.setattr(load_capacity, "search", lambda *_, **__: made)
    monkeypatch.setattr(load_capacity, "machine", lambda: MACHINE)
    output = tmp_path / "found"
    load_capacity.find_capacity(made.asked, made.level, output, quiet=False, as_json=False, json_lines=False)
    report = output / "report.md"
    text = capsys.readouterr().out
    assert "…" not in text
    for word in ("confirm", "12,345", "generator", "98,765.4", "12,345.6"):
        assert word in text
    assert {one.name for one in output.iterdir()} == {
        "summary.json",
        "report.md",
        "report.html",
        "latency.svg",
        "logs",
    }
    written = report.read_text()
    assert "this machine" in written
    assert "| sender" in written
    assert "<svg" in (output / "report.html").read_text()


def test_a_search_that_was_stopped_at_once_has_a_report(tmp_path: Path) -> None:
    made = searched({}, None, Interrupted(2))
    assert "no load was found" in capacity_report.write_report(tmp_path, made).read_text()


def test_a_step_without_figures_has_none() -> None:
    search = asked({}, None, 100, 200, None)
    ask = Ask("step", 100)
    step = step_of(
        ask, search.of(ask), service_level(search.options, ()), Outcome(exit_code=1, error="kafka died"), []
    )
    assert isinstance(step, Step)
    assert (step.verdict, step.offered_per_s, step.directory) == ("broke", None, None)
    assert Queue(1, 3).growth == 2
