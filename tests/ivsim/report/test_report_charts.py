"""What a figure shows of a ledger: every message once, and inside its frame."""

from __future__ import annotations

import math
import re
import statistics
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backend_bases import RendererBase
from matplotlib.lines import Line2D

from ivsim.report.charts import (
    FATES,
    STAGES,
    asked_and_achieved,
    delay_asked_and_probed,
    fates_by_hop,
    latency_distribution,
    latency_over_time,
    per_second,
)
from ivsim.report.drawing import Drawing
from ivsim.report.page import decided_by_host
from ivsim.report.style import FATE_COLOURS, window_words

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
        drawn = latency_over_time(ledger, START_NS).svg()
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    assert found is not None
    width, height = map(float, found.groups())
    crosses = [(float(x), float(y)) for x, y in CROSS.findall(drawn)]
    assert len(crosses) == int(lost.sum()) + 1, "one a message, and one in the legend"
    assert all(0 < x < width and 0 < y < height for x, y in crosses)


def test_a_run_that_ends_at_its_target_shows_each_acknowledgement() -> None:
    due = START_NS + np.arange(3) * 1_000_000_000
    ledger = {
        "due_at_ns": due, "emitted_at_ns": due, "acknowledged_at_ns": due + 5_000_000,
        "fate": np.array(["delivered"] * 3),
    }  # fmt: skip
    assert "acknowledgement time, n = 3" in text_of(latency_over_time(ledger, START_NS, "peer"))


@pytest.mark.full
def test_the_figures_of_a_million_messages_stay_small() -> None:
    count = 1_000_000
    random = np.random.default_rng(1)
    due = START_NS + np.sort(random.integers(0, 600_000_000_000, count))
    later = due + (random.lognormal(4, 0.7, count) * 1e6).astype(np.int64)
    arrived = np.where(random.random(count) < 0.01, np.nan, later)
    names = {name for stage in STAGES.values() for name in stage}
    ledger = dict.fromkeys(names, arrived) | {
        "due_at_ns": due, "emitted_at_ns": due, "fate": np.where(np.isnan(arrived), "lost", "delivered"),
    }  # fmt: skip
    drawn = [latency_over_time(ledger, START_NS).svg(), latency_distribution(ledger).svg()]
    assert sum(map(len, drawn)) < 700_000
    n = int(np.isfinite(arrived).sum())
    assert f"end-to-end latency, n = {n:,}" in text_of(latency_over_time(ledger, START_NS))


def text_of(drawing: Drawing) -> str:
    """Return the words of a figure's legend."""
    (axes,) = drawing.axes
    return "\n".join(text.get_text() for text in axes.get_legend().get_texts())


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.one_of(st.just(float("nan")), st.floats(0, 1e6)), st.booleans())
    ),
)
def test_figures_of_a_second_are_of_its_own_rows(rows: list[tuple[int, float, bool]]) -> None:
    link = {
        "second": np.array([second for second, _, _ in rows], dtype=np.int64),
        "x": np.array([value for _, value, _ in rows], dtype=np.float64),
    }
    mask = np.array([chosen for _, _, chosen in rows], dtype=bool)
    seconds = np.unique(link["second"])
    found = per_second(link, mask, seconds, "x", np.nanmedian)
    for second, value in zip(seconds.tolist(), found.tolist(), strict=True):
        own = [x for at, x, chosen in rows if at == second and chosen and not math.isnan(x)]
        assert value == (
            pytest.approx(statistics.median(own)) if own else pytest.approx(math.nan, nan_ok=True)
        )
    assert np.isnan(per_second(link, mask, seconds, "absent", np.nanmedian)).all()


def test_each_second_of_the_link_is_a_second_wide_the_last_one_too() -> None:
    link = {
        "second": np.array([0, 1, 2]), "direction": np.array(["uplink"] * 3), "wire_bytes": np.array([125.0, 250.0, 0.0]),
        "asked_rate_bps": np.array([8e3, 9e3, 9e3]), "asked_delay_ms": np.array([20.0, 30.0, 30.0]),
    }  # fmt: skip
    (rates,) = asked_and_achieved(link, "uplink").axes
    passed = rates.lines[-1]
    assert passed.get_xdata().tolist() == [0, 1, 2, 3]
    assert passed.get_ydata().tolist() == [1.0, 2.0, 0.0, 0.0]
    (delays,) = delay_asked_and_probed(link).axes
    assert delays.lines[0].get_xdata().tolist() == [0, 1, 2, 3]


def test_a_run_of_which_nothing_arrived_has_figures_without_a_legend() -> None:
    stamps = np.full(3, np.nan)
    names = {name for stage in STAGES.values() for name in stage}
    ledger = dict.fromkeys(names, stamps) | {
        "due_at_ns": np.arange(3) * 1_000_000_000.0,
        "fate": np.array(["lost"] * 3),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "<svg" in latency_distribution(ledger).svg()
        assert "<svg" in latency_over_time(ledger, 0).svg()


def test_every_fate_has_a_bar_and_a_colour_of_its_own() -> None:
    fates = list(FATES)
    ledger = {
        "fate": np.array(fates),
        "hop": np.array([{"lost": "link", "refused": "broker"}.get(f) for f in fates]),
    }
    bars = re.findall(r'style="fill: (#[0-9a-f]{6})', fates_by_hop(ledger).svg())
    assert len(set(FATE_COLOURS.values())) == len(FATES) == len(FATE_COLOURS)
    assert {colour.lower() for colour in FATE_COLOURS.values()} <= set(bars)


def test_what_the_host_decides_is_shown_and_the_unknown_named() -> None:
    shown = dict(decided_by_host({}))
    assert set(shown.values()) == {"unknown"}
    manifest = {
        "machine": {"kernel": "6.1"},
        "host": {
            "clock": {"source": "tsc"},
            "cpu": {"governor": ["performance"]},
            "memory": {"free_pages_returned": False},
            "limits": {"cpu_cores": 1.5},
        },
        "tcp": {"congestion_control": "cubic"},
        "offloads": {"vehicles v0": {"rx": True, "tx": False, "gro": True}},
    }
    shown = dict(decided_by_host(manifest))
    assert (shown["clock source"], shown["CPU governor"], shown["congestion control"]) == (
        "tsc",
        "performance",
        "cubic",
    )
    assert shown["free memory goes back to the host"] == "no"
    assert (shown["offloads that are on"], shown["limit of CPU time, cores"]) == ("vehicles v0: gro", "1.5")


def test_a_partial_run_says_which_messages_it_counts() -> None:
    figures = {"window_from_s": 2.0, "window_to_s": 12.25, "due": 15, "run_due": 84}
    assert window_words(figures) == "15 of 84 messages, those due from 2.0 s to 12.2 s after the start"
    assert (
        window_words(figures | {"due": 84})
        == "all 84 messages, those due from 2.0 s to 12.2 s after the start"
    )
    assert window_words(figures | {"window_to_s": -3.0}).startswith("none of the 84 messages due")
    assert window_words(figures | {"window_to_s": None}) is None


def test_a_chart_is_laid_out_and_then_drawn_once():
    drawn = []

    class Counted(Line2D):
        def draw(self, renderer: RendererBase) -> None:
            drawn.append(renderer)
            super().draw(renderer)

    chart = Drawing(lambda axes: axes.add_line(Counted([0, 1], [0, 1])))
    assert chart.svg() == chart.svg()
    # One for each of the two: the layout asks for sizes alone, and is made once.
    assert len(drawn) == 2
