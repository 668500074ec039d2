"""A producer that chooses its batches as a gateway does, on a link that changes between measurements and within one."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.session import DECISIONS, Platforms, write_decisions
from ivsim.testbed.registry import RunRecord

ASKED = {
    "record": "b500",
    "format": "raw",
    "content": "encoded",
    "producers": 2,
    "partitions": 2,
    "partitioner": "own",
    "arrivals": "poisson",
    "rate": 200.0,
    "duration_s": 4.0,
    "warmup_s": 1.0,
    "acks": "1",
    "in_flight": 5,
    "expiry_ms": 1_000,
    "limit_ms": 100.0,
    "linger_ms": 50.0,
    "link": "auto",
    "trace": "paper-rtt",
    "rtt": "20",
}
CHOSEN = {
    "batching": "reactive",
    "batch_period_s": 1.0,
    "batch_messages": 20,
    "loss_ratio": 0.05,
    "link_varies": True,
}


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.netns
def test_the_link_changes_under_one_platform_and_the_choices_are_kept(tmp_path):
    with (
        RunRecord(f"b{time.time_ns():x}-{time.time_ns() % 0xFFFFFF:06x}", tmp_path) as record,
        Platforms(record, tmp_path / "w") as platforms,
    ):
        fixed = pipe_options({**ASKED, "batch_messages": 20})
        first = platforms.measure(fixed)
        processes = dict(platforms.open(fixed).platform.pids())
        chosen = pipe_options({**ASKED, **CHOSEN, "tcp": "reno"})
        second = platforms.measure(chosen)
        assert dict(platforms.open(chosen).platform.pids()) == processes
    for found in (first, second):
        figures = figures_of(found)
        assert (
            sum(figures[fate] for fate in FATES) == figures["produced"] == found.ledger.produced.number.size
        )
        assert figures["acknowledged_lost"] == 0
        assert figures["undelivered_ratio"] is not None
        assert figures["timely_per_s"] == pytest.approx(figures["in_time_ratio"] * _due_per_s(found))
        # Each producer has a partition, and what of its records came is there.
        came = found.ledger.partition >= 0
        owners = (found.ledger.produced.number - 1) % 2
        assert np.array_equal(found.ledger.partition[came], owners[came])
    assert figures_of(first)["undelivered_ratio"] == 0
    assert 3 < figures_of(first)["batch_records"] < 8  # 100/s, closed by 50 ms
    write_decisions(first, tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()
    write_decisions(second, tmp_path / DECISIONS)
    rows = [json.loads(line) for line in (tmp_path / DECISIONS).read_text().splitlines()]
    assert {row["producer"] for row in rows} == {0, 1}
    assert {row["congestion_control"] for row in rows} == {"reno"}
    assert all(15 < row["rtt_ms"] < 400 for row in rows)
    assert {row["rule"] for row in rows} <= {"largest", "kept"}


def _due_per_s(found):
    """Return the records due after the warm-up by the second."""
    due = int((found.ledger.produced.due_at_ns >= found.warm_at_ns).sum())
    return due / (found.options.duration_s - found.options.warmup_s)
