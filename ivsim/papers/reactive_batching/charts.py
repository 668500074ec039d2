"""The report's own charts: latency and loss over the count, calibration of the laws, and a controller over time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gateways.batching.waiting import mean_waits_ms
from ivsim.papers.reactive_batching import loss_models
from ivsim.papers.reactive_batching.cells import (
    AGED,
    COUNTS,
    FILLED,
    LOSS_COUNTS,
    LOSSES,
    MEAN,
    RATE,
    WAIT_MS,
    Cells,
)
from ivsim.papers.reactive_batching.control_sections import asked_losses
from ivsim.papers.reactive_batching.laws import ANALYTIC, GAMMA, PHASE, UNIFORM, errors
from ivsim.report.drawing import Charts
from ivsim.study import charts
from ivsim.study.engines.pipe.session import DECISIONS
from ivsim.study.results import CellResult

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
POLICY: Final = "reactive"


def paper_charts(cells: Cells, results: Sequence[CellResult]) -> Charts:
    """Return the charts for which there is something to draw."""
    found: Charts = {}
    if cells.count_runs(1):
        found["latency-over-count.svg"] = (
            charts.drawn(lambda axes: _latency(axes, cells)),
            f"Mean latency over B_S, {RATE:g} records/s, B_T {WAIT_MS:g} ms: runs, and the analytic model on B_S 1",
        )
        found["calibration.svg"] = (
            charts.drawn(lambda axes: _calibration(axes, cells), (5.0, 4.6)),
            "Predicted and measured share of late records, ten limits of each held-out run",
        )
    if loss_models.loss_cells(cells):
        found["loss-calibration.svg"] = (
            charts.drawn(lambda axes: _loss_calibration(axes, cells), (5.0, 4.6)),
            "Predicted and measured share that was lost: each held-out cell, its repetitions and its mean",
        )
    if any(cells.lost(loss, 1) for loss in LOSSES):
        found["loss-over-loss.svg"] = (
            charts.drawn(lambda axes: _losses(axes, cells)),
            "Records that no consumer was given, over the loss of the link: CUBIC, 5 requests in flight",
        )
    run = next(
        (
            one
            for one in results
            if one.cell.sweep == "policies" and one.cell.values["batching"] == POLICY and one.done
        ),
        None,
    )
    if run is not None and (run.done[0].directory / DECISIONS).is_file():
        found["controller.svg"] = (
            charts.drawn(lambda axes: _controller(axes, run), (7.2, 3.6), 2, share=False),
            f"The policy {POLICY} over the first repetition: the loss asked of the link and what TCP showed; the counts chosen",
        )
    return found


def _latency(axes: Any, cells: Cells) -> None:
    for count in COUNTS:
        values = list(cells.figures(MEAN, "latency", batch_messages=count).values())
        axes.plot([count] * len(values), values, "o", color=COLOURS[0], markersize=4)
    alone = float(np.mean(list(cells.figures(MEAN, "latency", batch_messages=1).values())))
    places = np.arange(1, max(COUNTS) + 1)
    axes.plot(places, alone + mean_waits_ms(places, WAIT_MS, RATE), color=COLOURS[1], label=ANALYTIC)
    axes.plot([], [], "o", color=COLOURS[0], label="measured")
    runs = sum(len(cells.figures(MEAN, "latency", batch_messages=count)) for count in COUNTS)
    axes.set(xlabel=charts.labelled("B_S, records", f"n = {runs} runs"), ylabel="mean latency, ms")
    axes.legend()


def _calibration(axes: Any, cells: Cells) -> None:
    laws = {GAMMA: (1,), PHASE: FILLED, UNIFORM: AGED, ANALYTIC: COUNTS}
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    for colour, (law, counts) in zip(COLOURS, laws.items(), strict=True):
        points = [error for count in counts for error in errors(cells, law, count).values()]
        axes.plot(
            [share for one in points for share in one.predicted],
            [share for one in points for share in one.measured],
            ".",
            color=colour,
            markersize=3,
            label=law,
        )
    axes.set(xlabel="predicted share late", ylabel="measured share late", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def _loss_calibration(axes: Any, cells: Cells) -> None:
    found = loss_models.loss_cells(cells)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    for colour, name in zip((*COLOURS, "black"), loss_models.fittable(), strict=False):
        predicted = loss_models.predicted_by(cells, name)
        points = [
            (share, lost)
            for share, one in zip(predicted, found, strict=True)
            if np.isfinite(share)
            for lost in one.lost.values()
        ]
        if points:
            axes.plot(*zip(*points, strict=True), ".", color=colour, markersize=3, label=name)
    axes.set(
        xlabel="predicted share lost", ylabel="measured share lost", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02)
    )
    charts.legend(axes)


def _losses(axes: Any, cells: Cells) -> None:
    runs = 0
    for colour, count in zip(COLOURS, LOSS_COUNTS, strict=False):
        for acks, style in (("1", "o-"), ("0", "x:")):
            found = {
                loss: list(values.values()) for loss in LOSSES if (values := cells.lost(loss, count, acks))
            }
            means = {loss: float(np.mean(values)) for loss, values in found.items()}
            runs += sum(map(len, found.values()))
            label = f"B_S {count}, " + ("at least once" if acks == "1" else "at most once")
            axes.plot(list(means), list(means.values()), style, color=colour, markersize=4, label=label)
    axes.set(
        xlabel=charts.labelled("loss of the link", f"n = {runs} runs"),
        ylabel="share not delivered",
        ylim=(-0.02, 1.02),
    )
    charts.legend(axes)


def _controller(row: Any, run: CellResult) -> None:
    link, chosen = row
    directory = run.done[0].directory
    applied, loss = asked_losses(directory)
    rows = [json.loads(line) for line in (directory / DECISIONS).read_text().splitlines()]
    begun_ns = int(applied[0]) if applied.size else 0
    link.step((applied - begun_ns) / 1e9, loss, where="post", color=COLOURS[0], label="asked")
    seen = [(one["decided_at_ns"], one["loss_ratio"]) for one in rows if one["loss_ratio"] is not None]
    link.plot(
        [(at - begun_ns) / 1e9 for at, _ in seen],
        [value for _, value in seen],
        "x",
        color=COLOURS[1],
        label="seen by TCP",
    )
    link.set(xlabel="time, s", ylabel="loss of the uplink")
    link.legend()
    for producer, colour in zip(sorted({one["producer"] for one in rows}), COLOURS, strict=False):
        own = [one for one in rows if one["producer"] == producer]
        times = [(one["decided_at_ns"] - begun_ns) / 1e9 for one in own]
        chosen.step(times, [one["messages"] for one in own], where="post", color=colour)
    chosen.set(xlabel="time, s", ylabel="B_S chosen, by gateway", yscale="log")
