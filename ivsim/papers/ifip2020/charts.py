"""The figures of the repeated paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ivsim.papers.ifip2020.codec_claims import CURRENT_STATUS, PAPER_BYTES, FormatCells
from ivsim.papers.ifip2020.decisions import AllObservations
from ivsim.papers.ifip2020.paper import FACTORS, LOSSES, MESSAGE_BYTES, MODES, SIZES
from ivsim.report.drawing import Charts, Drawing
from ivsim.study import charts
from ivsim.study.engines.codec.report import size_histograms
from ivsim.study.engines.echo.observations import EchoObservations, Observations
from ivsim.study.engines.run_axes import trace_chart
from ivsim.study.results import CellResult, done_of
from ivsim.study.statistics import Interval

Series = dict[str, list[tuple[float, Interval]]]


def paper_charts(everything: AllObservations, found: Sequence[CellResult]) -> Charts:
    """Return file name -> (SVG, caption)."""
    done, observations = done_of(found), everything.sent
    ping_ms = observations.ping_ms
    if not done:
        return {}
    return {
        "latency-over-loss.svg": (
            _panels(lambda size: _over_loss(observations, size, EchoObservations.latency), "mean latency, ms", log_y=True),
            "Mean latency over loss, large (left) and small (right), with 95 % intervals over vehicles",
        ),
        "unsuccessful-over-loss.svg": (
            _panels(lambda size: _over_loss(observations, size, _percent), "never received, %", log_y=False),
            "Messages never received over loss, large (left) and small (right), with 95 % intervals over vehicles",
        ),
        "overhead.svg": (charts.drawn(lambda axes: _overhead(axes, observations)), OVERHEAD),
        "latency-over-size.svg": (charts.drawn(lambda axes: _sizes(axes, observations)), SIZE),
        "latency-over-rate.svg": (charts.drawn(lambda axes: _rates(axes, observations)), RATE),
        "ecdf.svg": (_ecdfs(observations), "Latency of every message due: large at 0 % (left) and 25 % loss (right)"),
        "best-case.svg": (charts.drawn(lambda axes: _best(axes, observations, ping_ms)), BEST),
        **trace_chart([result for result in done if result.cell.sweep == "loss_large"][:1]),
        **_sizes_of_formats(everything.formats),
    }  # fmt: skip


FORMAT_SIZES = "Payload sizes of CurrentStatus by format, with the mean here and the published one"
SIZE = "Mean latency over message size, 0 % loss"
RATE = "Mean latency over the trace's rate scaled, large, 0 % loss"
BEST = "No emulation, small: sent to received, with a ping's mean as the line"
OVERHEAD = (
    "Overhead per message and crossing of the link at 0 % and 25 % loss, with 95 % intervals over vehicles"
)


def _sizes_of_formats(cells: FormatCells) -> Charts:
    """Return the histograms of the sizes of CurrentStatus, the published means beside them."""
    found = {}
    for name in PAPER_BYTES:
        cell = cells.get(CURRENT_STATUS, name)
        sizes = None if cell is None else cell.observations.sample("payload_bytes_mean")
        if sizes is not None:
            found[name] = sizes
    marks = {name: ("published", value) for name, value in PAPER_BYTES.items()}
    return {"format-sizes.svg": (size_histograms(found, marks), FORMAT_SIZES)} if found else {}


def _percent(cell: EchoObservations) -> Interval:
    share = cell.unsuccessful()
    low, middle, high = (None if v is None else 100 * v for v in (share.low, share.estimate, share.high))
    return Interval(middle, low, high, share.n)


def _over_loss(observations: Observations, size: str, figure: Any) -> Series:
    found: Series = {}
    for k, mode in enumerate(MODES):
        for place, loss in enumerate(LOSSES):
            cell = observations.get(f"loss_{size}", mode, loss=loss)
            if cell is not None:
                found.setdefault(mode, []).append((place + (k - 3) * 0.07, figure(cell)))
    return found


def _panels(series: Any, label: str, *, log_y: bool) -> Drawing:
    def draw(axes: Any) -> None:
        for ax, size in zip(axes, SIZES, strict=True):
            charts.curves(ax, series(size), "packet loss, %", label if size == SIZES[0] else "", log_y=log_y)
            ax.set_title(size, fontsize=9)
            # Evenly spaced: 0, 1 and 5 % would lie on one another.
            ax.set_xticks(range(len(LOSSES)), labels=[f"{loss * 100:g}" for loss in LOSSES])
        charts.legend_beside(axes[-1])

    return charts.drawn(draw, (9.0, 3.6), 2)


def _overhead(axes: Any, observations: Observations) -> None:
    groups = {
        f"{size}, {loss:.0%}": {
            mode: cell.overhead()
            for mode in MODES
            if (cell := observations.get(f"loss_{size}", mode, loss=loss)) is not None
        }
        for size in SIZES
        for loss in (0.0, 0.25)
    }
    charts.bars(axes, groups, "overhead a message, B", x="size, packet loss")
    charts.legend(axes)


def _sizes(axes: Any, observations: Observations) -> None:
    found: Series = {}
    for mode in MODES:
        cells: list[tuple[float, EchoObservations | None]] = [
            (10.0, observations.get("loss_small", mode, loss=0.0))
        ]
        cells += [(s, observations.get("sizes", mode, message_bytes=s)) for s in MESSAGE_BYTES]
        found[mode] = [(size, cell.latency()) for size, cell in cells if cell is not None]
    charts.curves(axes, found, "message size, B", "mean latency, ms")
    axes.set_xscale("log")
    charts.legend(axes)


def _rates(axes: Any, observations: Observations) -> None:
    found: Series = {}
    for mode in MODES:
        cells = [(f, observations.get("rates", mode, rate_factor=f)) for f in FACTORS]
        cells.insert(1, (1.0, observations.get("loss_large", mode, loss=0.0)))
        found[mode] = [(factor, cell.latency()) for factor, cell in cells if cell is not None]
    charts.curves(axes, found, "factor on the rate", "mean latency, ms")
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5, 10], labels=["0.5", "1", "2", "5", "10"])
    charts.legend(axes)


def _ecdfs(observations: Observations) -> Drawing:
    def draw(axes: Any) -> None:
        for ax, loss in zip(axes, (0.0, 0.25), strict=True):
            cells = {m: c for m in MODES if (c := observations.get("loss_large", m, loss=loss)) is not None}
            charts.ecdf(ax, {m: (c.received_ms, c.due) for m, c in cells.items()}, "latency, ms")
            ax.set_title(f"{loss:.0%} loss", fontsize=9)
        charts.legend_beside(axes[-1])

    return charts.drawn(draw, (9.0, 3.4), 2)


def _best(axes: Any, observations: Observations, ping_ms: Sequence[float]) -> None:
    found = {
        mode: cell.delays.mean()
        for mode in MODES
        if (cell := observations.get("best_case", mode, link="direct")) is not None
    }
    charts.bars(axes, {"": found}, "sent to received, ms")
    if len(ping_ms):
        axes.axhline(
            sum(ping_ms) / len(ping_ms), color="#666666", linestyle="--", linewidth=1.0, label="ping"
        )
    charts.legend(axes)
