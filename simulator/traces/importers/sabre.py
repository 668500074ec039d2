"""Sabre's JSON traces; its latency is a constant its authors put in, so it is not taken over."""

from __future__ import annotations

import json

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source
from simulator.traces.importers.grid import Rows, from_intervals
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.model import Trace

_KEYS = {"duration_ms", "bandwidth_kbps", "latency_ms"}


def _recognises(lines: list[str]) -> bool:
    head = "".join(lines)
    return head.lstrip().startswith("[") and '"duration_ms"' in head


def _entries(source: Source) -> list[list[float]]:
    try:
        document = json.loads(source.text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise source.refusal(error.lineno, f"not JSON: {error.msg}") from error
    except ValueError as error:
        raise Refusal(f"{source.path}: {error}") from error
    if not isinstance(document, list) or not document:
        raise source.refusal(1, "must be a JSON list with at least one entry")
    return [_entry(source, k, entry) for k, entry in enumerate(document, 1)]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _entry(source: Source, k: int, entry: object) -> list[float]:
    where = f"{source.path}: entry {k}"
    if (
        not isinstance(entry, dict)
        or set(entry) - _KEYS
        or not {"duration_ms", "bandwidth_kbps"} <= set(entry)
    ):
        raise Refusal(f"{where}: must have the keys {', '.join(sorted(_KEYS))}")
    numbers = [entry["duration_ms"], entry["bandwidth_kbps"]]
    if (
        any(isinstance(n, bool) or not isinstance(n, int | float) or not 0 <= n < 1e15 for n in numbers)
        or not numbers[0]
    ):
        raise Refusal(f"{where}: duration_ms must be above 0, bandwidth_kbps 0 or more")
    return numbers


def _read(source: Source, options: Options) -> Trace:
    duration_ms, kbps = np.array(_entries(source), dtype=np.float64).T
    end_s = np.cumsum(duration_ms) / 1000
    start_s = np.concatenate(([0.0], end_s[:-1]))
    column = DIRECTIONS[options.direction or "downlink"]
    rows = Rows(start_s, end_s, np.arange(1, len(end_s) + 1), {column: kbps})
    return from_intervals(
        source,
        rows,
        options,
        "sabre",
        rate_meaning="as_logged",
        rate_layer="tcp_payload",
        note="latency_ms is a constant: left out",
    )


SABRE = Importer(
    "sabre",
    "Sabre JSON (duration_ms, bandwidth_kbps): integrated by duration, its constant latency left out",
    frozenset({"direction", "step_s"}),
    _recognises,
    _read,
)
