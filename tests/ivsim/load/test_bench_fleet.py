"""The growth tables of `bench/bench_fleet.py`, from samples that were made up."""

from __future__ import annotations

from bench.bench_fleet import FULL, Size, cost, table
from ivsim.runs.counters import Sample

SIZE = Size(5_000, 2_500, 1_200, "direct")
METRICS = {
    "delivery_ratio": 1.0, "end_to_end_latency_p99_ms": 12_345.6, "processing_delay_p99_ms": None,
    "replay": {"applied_late_max_ms": 743.5},
}  # fmt: skip
PARTS = (
    "runner",
    "kafka",
    "spark",
    "router",
    "mosquitto",
    "gateway-0",
    "gateway-1",
    "capture",
    "sender-0",
    "sender-1",
)


def sampled(in_twin_per_s: float) -> list[Sample]:
    return [
        Sample(
            at_s=float(at), cpu_s=dict.fromkeys(PARTS, 0.1 * at), memory_bytes=dict.fromkeys(PARTS, 2_000_000_000),
            busy_s=2.0 * at, emitted=0, acknowledged=0, received=0, appended=0, in_twin=round(in_twin_per_s * max(0, at)),
        )
        for at in range(-1, 100)
    ]  # fmt: skip


def test_a_row_has_the_cost_of_a_message_and_says_when_the_twin_falls_behind() -> None:
    found = cost("valid", SIZE.options(), METRICS, {"drain_to_report_s": 99.5}, sampled(2_500))
    assert not found.behind
    assert round(found.cpu_us["kafka"]) == 40
    assert round(found.cpu_us["sender"]) == round(found.cpu_us["gatew."]) == 80
    assert round(found.cpu_us["all"]) == round(found.cpu_us["other"]) == 400
    assert found.memory_mb["sender"] == 4_000
    behind = cost("valid", SIZE.options(), METRICS, {}, sampled(2_400))
    assert behind.behind
    lines = list(table("direct", [(SIZE, [found, None]), (SIZE, [behind])]))
    assert max(map(len, lines)) <= 80
    assert sum("2*" in line for line in lines) == 4
    assert any(line.split()[:2] == ["1", "744"] for line in lines)
    assert any("12,346" in line for line in lines)


def test_a_count_of_a_while_ago_is_held_against_the_messages_due_until_then() -> None:
    def counted(late_s: float) -> list[Sample]:
        """Return samples of a twin that takes all, whose count is late by so much in the second half."""
        made = []
        for one in sampled(2_500):
            at_s = one.at_s - late_s * (one.at_s >= 30)
            made.append(one._replace(in_twin_at_s=at_s, in_twin=round(2_500 * max(0, at_s))))
        return made

    assert not cost("valid", SIZE.options(), METRICS, {}, counted(2.0)).behind
    # One that has stood still says nothing newer.
    stood = [one._replace(in_twin_at_s=1.0, in_twin=2_500) for one in sampled(2_500)]
    assert cost("valid", SIZE.options(), METRICS, {}, stood).behind


def test_a_run_without_samples_has_no_costs() -> None:
    assert cost("invalid", SIZE.options(), {}, {}, []).cpu_us == {}


def test_the_full_sizes_are_runs_that_can_be_asked() -> None:
    assert all(size.options().vehicles == size.vehicles for sizes in FULL.values() for size in sizes)
