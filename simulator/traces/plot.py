"""A trace as a picture: one panel per column over time; draws, computes nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import Refusal
from simulator.traces.model import RATE_COLUMNS, Floats, Trace

_LABELS = {
    "uplink_kbps": "uplink, kbit/s",
    "downlink_kbps": "downlink, kbit/s",
    "rtt_ms": "RTT, ms",
    "loss_ratio": "loss ratio",
}
_COLOURS = {
    "uplink_kbps": "#0072B2",
    "downlink_kbps": "#009E73",
    "rtt_ms": "#D55E00",
    "loss_ratio": "#6A3D9A",
}
# What a picture may be, and what its file says of itself beside the picture: nothing that differs between two of one trace.
FORMATS: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
# Rates and RTTs span decades; below this a logarithmic axis turns linear so that an outage can be drawn.
_LINEAR_BELOW = {"uplink_kbps": 10.0, "downlink_kbps": 100.0}


def plot(trace: Trace, path: str | Path, title: str) -> None:
    """Write the picture; an SVG or a PDF of the same trace is the same file, byte for byte.

    Raises:
        Refusal: the name ends in none of FORMATS.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise Refusal(f"{path}: must end in {' or '.join(FORMATS)}")
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and only this function needs it
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = trace.columns()
    figure = Figure(figsize=(10, 1.0 + 2.1 * len(columns)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
    edges_s = np.append(trace.time_s, trace.duration_s)
    for axis, (column, values) in zip(axes, columns.items(), strict=True):
        _panel(axis, edges_s, column, values)
    axes[0].set_title(title, loc="left", fontsize=11)
    axes[-1].set_xlabel("time, s")
    with mpl.rc_context({"svg.hashsalt": "ivsim"}):
        figure.savefig(path, dpi=120, metadata=FORMATS[path.suffix])


def _panel(axis: Any, edges_s: Floats, column: str, values: Floats) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axis.stairs(values, edges_s, color=_COLOURS[column], linewidth=0.9, baseline=None)
    axis.set_ylabel(_LABELS[column])
    axis.set_xlim(0, edges_s[-1])
    axis.grid(visible=True, alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if column in RATE_COLUMNS:
        _rate_axis(axis, edges_s, column, values)
    elif column == "rtt_ms" and values.max() > 5 * max(float(np.median(values)), 0.1):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(_plain)
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_ylim(bottom=0, top=None if values.any() else 1)


def _rate_axis(axis: Any, edges_s: Floats, column: str, values: Floats) -> None:
    if values.max() > 10 * _LINEAR_BELOW[column]:
        axis.set_yscale("symlog", linthresh=_LINEAR_BELOW[column], linscale=0.4)
        axis.yaxis.set_major_formatter(_plain)
    axis.set_ylim(bottom=0)
    out = values == 0
    for start_s, end_s in zip(edges_s[:-1][out], edges_s[1:][out], strict=True):
        axis.axvspan(start_s, end_s, color="#B00020", alpha=0.18, linewidth=0)
    if out.any():
        axis.text(1, 1.02, "shaded: outage (0)", transform=axis.transAxes, ha="right", fontsize=8)


def _plain(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"
