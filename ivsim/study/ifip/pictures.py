"""The figures of the repeated paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ivsim.study import charts
from ivsim.study.evidence import Evidence, Measured
from ivsim.study.ifip.paper import LOSSES, MODES, SIZES
from ivsim.study.pictures import Pictures, roads
from ivsim.study.statistics import Interval, mean_interval
from ivsim.study.summary import CellResult

Series = dict[str, list[tuple[float, Interval]]]


def of(evidence: Evidence, found: Sequence[CellResult], ping_ms: Sequence[float]) -> Pictures:
    """Return file name -> (SVG, caption)."""
    done = [result for result in found if result.done]
    if not done:
        return {}
    return {
        "latency-over-loss.svg": (
            _panels(lambda size: _over_loss(evidence, size, Measured.latency), "mean latency, ms", log_y=True),
            "Mean latency over loss, large (left) and small (right), with 95 % t intervals",
        ),
        "unsuccessful-over-loss.svg": (
            _panels(lambda size: _over_loss(evidence, size, _percent), "never received, %", log_y=False),
            "Messages never received over loss, large (left) and small (right), with exact 95 % intervals",
        ),
        "overhead.svg": (charts.drawn(lambda axes: _overhead(axes, evidence)), OVERHEAD),
        "latency-over-size.svg": (charts.drawn(lambda axes: _sizes(axes, evidence)), SIZE),
        "latency-over-rate.svg": (charts.drawn(lambda axes: _rates(axes, evidence)), RATE),
        "ecdf.svg": (_ecdfs(evidence), "Latency of every message due: large at 0 % (left) and 25 % loss (right)"),
        "best-case.svg": (charts.drawn(lambda axes: _best(axes, evidence, ping_ms)), BEST),
        **roads([result for result in done if result.cell.part == "loss_large"][:1]),
    }  # fmt: skip


SIZE = "Mean latency over message size, 0 % loss"
RATE = "Mean latency over the trace's rate scaled, large, 0 % loss"
BEST = "No emulation, small: sent to received, with a ping's mean as the line"
OVERHEAD = "Overhead per message and crossing of the link at 0 % and 25 % loss, with 95 % t intervals"


def _percent(cell: Measured) -> Interval:
    share = cell.unsuccessful()
    low, middle, high = (None if v is None else 100 * v for v in (share.low, share.estimate, share.high))
    return Interval(middle, low, high, share.n)


def _over_loss(evidence: Evidence, size: str, figure: Any) -> Series:
    found: Series = {}
    for k, mode in enumerate(MODES):
        for place, loss in enumerate(LOSSES):
            cell = evidence.get(f"loss_{size}", mode, loss=loss)
            if cell is not None:
                found.setdefault(mode, []).append((place + (k - 3) * 0.07, figure(cell)))
    return found


def _panels(series: Any, label: str, *, log_y: bool) -> str:
    def draw(axes: Any) -> None:
        for ax, size in zip(axes, SIZES, strict=True):
            charts.curves(ax, series(size), "packet loss, %", label if size == SIZES[0] else "", log_y=log_y)
            ax.set_title(size, fontsize=9)
            # Evenly spaced: 0, 1 and 5 % would lie on one another.
            ax.set_xticks(range(len(LOSSES)), labels=[f"{loss * 100:g}" for loss in LOSSES])
        charts.legend(axes[-1])

    return charts.drawn(draw, (9.0, 3.6), 2)


def _overhead(axes: Any, evidence: Evidence) -> None:
    groups = {
        f"{size}, {loss:.0%}": {
            mode: cell.overhead()
            for mode in MODES
            if (cell := evidence.get(f"loss_{size}", mode, loss=loss)) is not None
        }
        for size in SIZES
        for loss in (0.0, 0.25)
    }
    charts.bars(axes, groups, "overhead, B")
    charts.legend(axes)


def _sizes(axes: Any, evidence: Evidence) -> None:
    found: Series = {}
    for mode in MODES:
        cells: list[tuple[float, Measured | None]] = [(10.0, evidence.get("loss_small", mode, loss=0.0))]
        cells += [(s, evidence.get("sizes", mode, message_bytes=s)) for s in (100, 500, 1000, 2500, 5000)]
        found[mode] = [(size, cell.latency()) for size, cell in cells if cell is not None]
    charts.curves(axes, found, "message size, B", "mean latency, ms")
    axes.set_xscale("log")
    charts.legend(axes)


def _rates(axes: Any, evidence: Evidence) -> None:
    found: Series = {}
    for mode in MODES:
        cells = [(f, evidence.get("rates", mode, rate_factor=f)) for f in (0.5, 2.0, 5.0, 10.0)]
        cells.insert(1, (1.0, evidence.get("loss_large", mode, loss=0.0)))
        found[mode] = [(factor, cell.latency()) for factor, cell in cells if cell is not None]
    charts.curves(axes, found, "factor on the rate", "mean latency, ms")
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5, 10], labels=["0.5", "1", "2", "5", "10"])
    charts.legend(axes)


def _ecdfs(evidence: Evidence) -> str:
    def draw(axes: Any) -> None:
        for ax, loss in zip(axes, (0.0, 0.25), strict=True):
            cells = {m: c for m in MODES if (c := evidence.get("loss_large", m, loss=loss)) is not None}
            charts.ecdf(ax, cells, "latency, ms")
            ax.set_title(f"{loss:.0%} loss", fontsize=9)
        charts.legend(axes[-1])

    return charts.drawn(draw, (9.0, 3.4), 2)


def _best(axes: Any, evidence: Evidence, ping_ms: Sequence[float]) -> None:
    found = {
        mode: mean_interval(cell.delay_ms[cell.delay_ms == cell.delay_ms])
        for mode in MODES
        if (cell := evidence.get("best_case", mode, link="direct")) is not None
    }
    charts.bars(axes, {"sent to received": found}, "ms")
    if len(ping_ms):
        axes.axhline(
            sum(ping_ms) / len(ping_ms), color="#666666", linestyle="--", linewidth=1.0, label="ping"
        )
    charts.legend(axes)
