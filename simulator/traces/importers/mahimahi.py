"""mahimahi packet-delivery files: one line, one millisecond, one chance to send 1,500 bytes; both ways.

A file's period is its last line (mm-link starts again there), so the bin it falls into is not complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source
from simulator.traces.importers.options import DIRECTIONS, Options
from simulator.traces.layers import frame_factor
from simulator.traces.model import Floats, Trace
from simulator.traces.source import lines_of, whole

OPPORTUNITY_BITS = 12_000
# Lines that an export makes at a time: about 5 MB while they are made.
BLOCK_LINES = 50_000
_SUFFIXES = {".up": "uplink", ".down": "downlink"}
_PLAIN = b"0123456789\n"


def _recognises(lines: list[str]) -> bool:
    return all(line.isascii() and line.isdigit() for line in lines)


def _stamps_ms(source: Source) -> Floats:
    raw = source.text.encode()
    if raw.translate(None, _PLAIN) or b"\n\n" in raw or raw.startswith(b"\n"):
        for line, text in enumerate(lines_of(source.text), 1):
            whole(text, source.path, line, "delivery opportunity (ms)")
    # Digits and line ends alone: the quick parser cannot meet anything it would read as something else.
    stamps: Floats = np.fromstring(source.text, dtype=np.float64, sep="\n")
    if stamps.max() >= 1e15:
        raise source.refusal(int(np.argmax(stamps)) + 1, f"{stamps.max():g} ms, at most 15 digits can be")
    back = np.flatnonzero(np.diff(stamps) < 0)
    if len(back):
        line = int(back[0]) + 2
        raise source.refusal(line, f"goes back from {stamps[line - 2]:.0f} to {stamps[line - 1]:.0f} ms")
    if stamps[-1] == 0:
        raise source.refusal(len(stamps), "the last line is 0 ms: a period of nothing")
    return stamps


def _direction(source: Source, options: Options) -> str:
    direction = options.direction or _SUFFIXES.get(source.path.suffix)
    if direction is None:
        raise Refusal(
            f"{source.path}: the name ends in neither .up nor .down: give --direction uplink or downlink"
        )
    return direction


def _read(source: Source, options: Options) -> Trace:
    stamps_ms = _stamps_ms(source)
    column = DIRECTIONS[_direction(source, options)]
    step_s = options.step_s or 1.0
    steps = source.checked_steps(len(stamps_ms), math.floor(stamps_ms[-1] / 1000 / step_s + 1e-9))
    if steps == 0:
        rates = np.array([len(stamps_ms) * OPPORTUNITY_BITS / stamps_ms[-1]])
        policy = "shorter than one step: its mean rate"
    else:
        counts = np.diff(np.searchsorted(stamps_ms, np.arange(steps + 1) * (step_s * 1000)))
        rates = counts * (OPPORTUNITY_BITS / 1000 / step_s)
        policy = f"1,500 bytes per line, last incomplete step dropped (period {stamps_ms[-1] / 1000:g} s)"
    header = source.header("mahimahi", policy, rate_meaning="capacity", rate_layer="ip")
    time_s = np.round(np.arange(len(rates)) * step_s, 9)
    rounded = {column: np.round(rates, 6)}
    return Trace(time_s, header=header, last_step_s=step_s, source=str(source.path), **rounded)


class Opportunities:
    """A trace's rate as a mahimahi file: opportunity k in the millisecond in which bit 12,000 k is due.

    Bits are those of IP; a trace that states another layer is converted.

    The last line is the period in ms: it costs one packet more per loop and keeps its length, an outage
    at the end included. Reading it back gives every rate within one opportunity per step.

    Attributes:
        count: lines of the file, the last one included. There may be a hundred million: `blocks` makes some at a time.

    Raises:
        Refusal: the trace has no such column or never sends.
    """

    def __init__(self, trace: Trace, direction: str) -> None:
        column = DIRECTIONS[direction]
        rates = trace.columns().get(column)
        if rates is not None and (layer := trace.rate_layer(column)) is not None:
            rates = rates * frame_factor(layer) / frame_factor("ip")
        if rates is None or not rates.any():
            problem = "missing" if rates is None else "always 0"
            raise Refusal(f"{trace.source}: {column} is {problem}, nothing to export")
        self._rates = rates
        self._period_ms = round(trace.duration_s * 1000)
        self._edges_ms = np.append(trace.time_s, trace.duration_s) * 1000
        self._bits: Floats = np.concatenate(([0.0], np.cumsum(rates * np.diff(self._edges_ms))))
        self.count = math.floor(self._bits[-1] / OPPORTUNITY_BITS + 1e-6) + 1

    def blocks(self) -> Iterator[str]:
        """Yield the file's text, whole lines, in pieces of a bounded size."""
        for first in range(1, self.count, BLOCK_LINES):
            stamps = self._stamps_ms(first, min(first + BLOCK_LINES, self.count))
            yield "\n".join(map(str, stamps)) + "\n"
        yield f"{self._period_ms}\n"

    def _stamps_ms(self, first: int, end: int) -> list[int]:
        due = np.arange(first, end) * float(OPPORTUNITY_BITS)
        # A thousandth of a bit keeps a packet due at the very start of an outage before it.
        due = np.minimum(due, self._bits[-1]) - 1e-3
        step = np.searchsorted(self._bits, due, side="left") - 1
        at_ms = self._edges_ms[step] + (due - self._bits[step]) / self._rates[step]
        stamps: list[int] = np.clip(np.ceil(at_ms).astype(np.int64) - 1, 0, self._period_ms - 1).tolist()
        return stamps


def to_mahimahi(trace: Trace, direction: str) -> str:
    """Return `Opportunities` as one text, for traces that are short.

    Raises:
        Refusal: the trace has no such column or never sends.
    """
    return "".join(Opportunities(trace, direction).blocks())


MAHIMAHI = Importer(
    "mahimahi",
    "mahimahi .up/.down: true capacity, one line per 1,500 bytes",
    frozenset({"direction", "step_s"}),
    _recognises,
    _read,
)
