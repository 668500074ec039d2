"""Axes of the engines whose cells are asked as a run is: the fields of RunOptions, and the mode of a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gateways.protocols import every_mode
from ivsim.option import Declared, ineffective
from ivsim.option_rules import possible_options
from ivsim.options import OPTIONS, RunOptions
from ivsim.report.drawing import Charts
from ivsim.study import charts
from ivsim.study.cells import Cell
from ivsim.study.engines.base import Axis, Checked
from ivsim.study.results import CellResult, done_of
from schemas.errors import Refusal
from simulator.links import DIRECT

MODE: Final = "mode"
TRACE_SECONDS: Final = 600
_TYPES: Final = {str: "text", int: "integer", float: "number", bool: "true or false"}


def axes_of(fields: Iterable[str]) -> dict[str, Axis]:
    """Return the axes of an engine that reads these fields of a run, in the order of the options."""
    found = {one.option.axis: one for field in fields if (one := OPTIONS[field]).option.axis}
    return {name: _modes() if name == MODE else _axis(name, one) for name, one in found.items()}


def fields_of(fields: Iterable[str]) -> dict[str, Axis]:
    """Return the fields of an engine's scenario."""
    return {field: _axis(field, OPTIONS[field]) for field in fields}


def _modes() -> Axis:
    return Axis(MODE, "text", ", ".join(every_mode()))


def _axis(name: str, one: Declared) -> Axis:
    kind = "text" if one.choices else _TYPES.get(one.annotation, "list")
    return Axis(name, kind, one.allowed_text() or one.option.help)


def checked(fixed: Mapping[str, Any], values: Mapping[str, Any], **always: Any) -> Checked:
    """Return the options of a cell, and what of the scenario does nothing in it; Refusal for an axis that does nothing.

    Args:
        fixed: fields of the scenario.
        values: axis to value.
        always: fields that the engine sets.
    """
    fields = dict(fixed)
    for axis, value in values.items():
        fields |= _fields_set(axis, value)
    axis_of = {one.field: axis for axis in values for one in OPTIONS.values() if one.option.axis == axis}

    def naming(field: str) -> str:
        return axis_of.get(field, field)

    options = possible_options(fields | always, naming)
    idle = ineffective(options, OPTIONS, naming)
    for one in idle:
        if one.field in axis_of or not one.shared:
            raise Refusal(one.refusal)
    return Checked(options, {one.field: one.refusal for one in idle})


def _fields_set(axis: str, value: Any) -> dict[str, Any]:
    """Return the fields of a run that a value of an axis sets; Refusal for an unknown mode."""
    if axis != MODE:
        return {one.field: value for one in OPTIONS.values() if one.option.axis == axis}
    found = every_mode().get(str(value))
    if found is None:
        raise Refusal(f"axes.mode {value!r}: allowed are {_modes().allowed}")
    protocol, mode = found
    return {"protocol": protocol.name, "mode": mode.name}


def options_of(cell: Cell) -> RunOptions:
    """Return the options of a cell of an engine of this kind."""
    assert isinstance(cell.options, RunOptions)
    return cell.options


def mode_of(cell: Cell) -> str:
    """Return the mode as axes and charts write it, such as "mqtt qos1"."""
    options = options_of(cell)
    return f"{options.protocol} {options.mode}"


def trace_chart(results: Sequence[CellResult]) -> Charts:
    """Return what the traces of the cells ask of the link over time, one panel each; nothing of a link that asks for none."""
    emulated = [one for result in done_of(results) if (one := options_of(result.cell)).link != DIRECT]
    first: Mapping[str, RunOptions] = {options.trace: options for options in reversed(emulated)}
    names = dict.fromkeys(options.trace for options in emulated)
    series: dict[tuple[str, str], tuple[Any, list[float | None]]] = {}
    for name in names:
        trace = first[name].traces[0]
        seconds = np.arange(min(TRACE_SECONDS, int(trace.duration_s)))
        steps = [trace.step_at(int(s)) for s in seconds]
        if "uplink_kbps" in trace.columns():
            series[name, "uplink, kbit/s"] = (seconds, [step.uplink_kbps for step in steps])
        if "rtt_ms" in trace.columns() and len(names) == 1:
            series[name, "RTT, ms"] = (seconds, [step.rtt_ms for step in steps])
    if not series:
        return {}

    def draw(axes: Any) -> None:
        for ax, ((name, label), (seconds, values)) in zip(np.atleast_1d(axes), series.items(), strict=True):
            charts.steps(ax, label, seconds, values)
            ax.set_title(Path(name).name, fontsize=9)

    drawing = charts.drawn(draw, (2.5 * len(series), 2.2), len(series), share=False)
    return {"trace.svg": (drawing, "What the trace asks of the link, its first ten minutes")}


def caveats(results: Sequence[CellResult]) -> list[str]:
    """Return what generator and capture of the cells have to answer for."""
    lines = []
    figures = [one.figures for result in results for one in result.done]
    lags = sorted(lag for found in figures if (lag := found.get("emission_lag_p99_ms")) is not None)
    if lags:
        lines.append(
            f"Emission lag (due to sent), p99 per cell: median {lags[len(lags) // 2]:.1f} ms, worst {lags[-1]:.0f} ms;"
            " it contains CoAP's wait for the message before (NSTART = 1)."
        )
    drops = sum(int(found.get("kernel_drops") or 0) for found in figures)
    if drops:
        lines.append(f"The capture lost {drops} frames: bytes are missing.")
    return lines
