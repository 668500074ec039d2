"""What a figure shows of a ledger: every message once, and inside its frame."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from ivsim.report.figures import latency_over_time

START_NS = 1_800_000_000_000_000_000
# Opaque: points of latencies in the same colour let others show through.
CROSS = re.compile(r'<use [^>]*x="(-?[\d.]+)" y="(-?[\d.]+)" style="fill: #d55e00; stroke: #d55e00"')


@pytest.mark.parametrize("longest_ms", [0.2, 40.0, 13_000.0])
def test_lost_messages_stand_inside_the_figure_of_latencies(longest_ms: float) -> None:
    due = START_NS + np.arange(40) * 500_000_000
    lost = np.arange(40) % 4 == 0
    took = (np.linspace(0.1, longest_ms, 40) * 1e6).astype(np.int64)
    arrived = np.where(lost, np.nan, due + took)
    ledger = {
        "due_at_ns": due, "emitted_at_ns": due, "received_at_ns": arrived, "applied_at_ns": arrived,
        "fate": np.where(lost, "lost", "delivered"),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = latency_over_time(ledger, START_NS)
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    assert found is not None
    width, height = map(float, found.groups())
    crosses = [(float(x), float(y)) for x, y in CROSS.findall(drawn)]
    assert len(crosses) == int(lost.sum()) + 1, "one a message, and one in the legend"
    assert all(0 < x < width and 0 < y < height for x, y in crosses)
