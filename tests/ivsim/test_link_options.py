"""What a run asks of its schedule: traces in turn, impairments within a second, and refusals of what would do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.option_rules import run_options
from ivsim.runs.runner import link_schedule_of
from schemas.errors import Refusal
from simulator.link_schedule import Impairments
from simulator.links.base import check
from simulator.traces import bundled


def test_vehicles_take_turns_with_the_traces() -> None:
    schedule = link_schedule_of(run_options(trace="car-2024,tunnel", vehicles=5, trace_offsets=False))
    conditions = schedule.at(3)
    for vehicle, name in ((1, "car-2024"), (2, "tunnel"), (3, "car-2024"), (4, "tunnel")):
        asked = bundled(name).step_at(3)
        uplink, downlink = conditions[vehicle]
        assert asked.uplink_kbps is not None
        assert asked.rtt_ms is not None
        assert uplink.rate_bps == asked.uplink_kbps * 1_000
        assert uplink.delay_ms + downlink.delay_ms == asked.rtt_ms


def test_texture_reaches_both_directions() -> None:
    options = run_options(
        vehicles=1, jitter_ms=4.0, loss_ratio=0.05, reorder_ratio=0.02, duplicate_ratio=0.03, queue_bytes=9_000,
    )  # fmt: skip
    for direction, condition in zip(("uplink", "downlink"), link_schedule_of(options).at(0)[1], strict=True):
        assert (condition.jitter_ms, condition.distribution) == (4.0, "normal")
        assert (condition.reorder_ratio, condition.duplicate_ratio, condition.queue_bytes) == (
            0.02,
            0.03,
            9_000,
        )
        assert condition.mean_loss_ratio == pytest.approx(0.05)
        check(condition, 1, direction)  # type: ignore[arg-type]


def test_without_options_a_road_is_plain() -> None:
    assert all(condition.plain for condition in link_schedule_of(run_options()).at(0)[1])


@given(st.floats(0.0001, 0.9), st.floats(1, 100))
def test_bursts_keep_the_mean_loss(loss_ratio: float, burst: float) -> None:
    condition = Impairments(burst_packets=burst).condition(None, 20.0, loss_ratio)
    wanted = loss_ratio / (burst * (1 - loss_ratio))
    if wanted <= 1:
        assert condition.mean_loss_ratio == pytest.approx(loss_ratio)
    assert condition.burst_packets == pytest.approx(burst)


def test_a_road_without_loss_has_no_bursts() -> None:
    assert Impairments(burst_packets=3).condition(None, 20.0, 0.0).gilbert_elliott is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"trace": "car-uplink-2024"}, "--trace car-uplink-2024: has no rtt_ms: give --rtt"),
        ({"trace": "car-2024,nowhere"}, "--trace 'nowhere': no such file"),
        ({"rtt": "car-uplink-2024"}, "--rtt 'car-uplink-2024': has no rtt_ms; bundled traces that have it:"),
        (
            {"trace": "car-rtt-2023", "rate_factor": 2.0},
            "--rate-factor 2: needs a trace with a rate, and car-rtt-2023 is none",
        ),
        ({"outage": ((20.5, 0.4),)}, "--outage 20.5:0.4: whole seconds"),
        (
            {"outage": ((5_000, 10),)},
            "--outage 5000:10: whole seconds, starting before the run's end at 90 s",
        ),
        ({"duplicate_ratio": 0.1}, "--duplicate 0.1: needs --vehicles 1"),
        (
            {"duplicate_ratio": 0.1, "vehicles": 1, "loss_ratio": 0.01, "loss_burst": 4.0},
            "--duplicate 0.1: not with --loss-burst",
        ),
        ({"jitter_ms": -1.0}, "--jitter -1.0"),
        ({"jitter_distribution": "round"}, "--jitter-distribution 'round'"),
        ({"loss_burst": 0.5}, "--loss-burst 0.5"),
        ({"loss_burst": 1.0, "loss_ratio": 0.8}, "--loss-burst 1: too short for --loss 0.8"),
        ({"queue_bytes": 100}, "--queue-bytes 100"),
        ({"reorder_ratio": 1.0}, "--reorder 1.0"),
    ],
)
def test_what_would_do_nothing_is_refused(words: dict[str, object], named: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**words)
    assert str(refused.value).startswith(named)


def test_steps_shorter_than_the_roads_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fast.csv"
    rows = "".join(f"{n / 10},1000,50\n" for n in range(30))
    path.write_text("# rate_meaning: capacity\ntime_s,uplink_kbps,rtt_ms\n" + rows)
    with pytest.raises(Refusal, match="steps are shorter than 1 s"):
        run_options(trace=str(path))


def test_a_file_may_give_the_rtt_alone(tmp_path):
    path = tmp_path / "rtt.csv"
    path.write_text("time_s,rtt_ms\n0,80\n1,90\n")
    schedule = link_schedule_of(run_options(rtt=str(path), trace_offsets=False))
    assert [schedule.at(second)[1][0].delay_ms for second in (0, 1)] == [40.0, 45.0]


def test_a_file_without_rtt_gives_none(tmp_path):
    path = tmp_path / "rate.csv"
    path.write_text("time_s,uplink_kbps\n0,80\n1,90\n")
    with pytest.raises(Refusal, match=r"--rtt .*rate\.csv: has no rtt_ms"):
        run_options(rtt=str(path))
    with pytest.raises(
        Refusal, match=r"--rtt '/nowhere': no such file .* write milliseconds, a file, or a bundled"
    ):
        run_options(rtt="/nowhere")
