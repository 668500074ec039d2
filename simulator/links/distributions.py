"""netem's delay distribution tables, computed as iproute2 computes them; pure.

A table is the inverse cumulative distribution at equal steps, in units of the jitter, scaled by 8192 (the
kernel's NETEM_DIST_SCALE). The formulas are those of NISTnet, which iproute2 documents in its netem folder;
the tests compare the tables with the ones that iproute2 installs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Final

SIZE: Final = 4096
SCALE: Final = 8192
INT16_MAX: Final = 32767
# NISTnet tabulates at 16,384 steps, rounds to the nearest, and keeps each fourth.
STEP_HALF: Final = 0.5 / 16384
PARETO_SHAPE: Final = 3.0
PARETO_SCALE: Final = 4 / 3  # NISTnet's; the standard deviation is then 2 / sqrt(3) times the jitter


def normal(u: float) -> float:
    """Return the quantile of the standard normal distribution, scaled."""
    return NormalDist().inv_cdf(u + STEP_HALF) * SCALE


def pareto(u: float) -> float:
    """Return the quantile of Pareto(3) less its mean 1.5, scaled; cut where int16 ends."""
    value = (math.pow(1 - u, -1 / PARETO_SHAPE) - 1.5) * PARETO_SCALE * SCALE
    return min(value, INT16_MAX)


def paretonormal(u: float) -> float:
    """Return a quarter of the normal and three quarters of the Pareto quantile."""
    return (normal(u) + 3 * pareto(u)) / 4


_QUANTILES: Final[dict[str, Callable[[float], float]]] = {
    "normal": normal,
    "pareto": pareto,
    "paretonormal": paretonormal,
}


@cache
def values(name: str) -> tuple[int, ...]:
    """Return the table as int16."""
    quantile = _QUANTILES[name]
    return tuple(max(-INT16_MAX - 1, min(INT16_MAX, round(quantile(i / SIZE)))) for i in range(SIZE))


@cache
def table(name: str) -> bytes:
    """Return TCA_NETEM_DELAY_DIST's payload; empty for "uniform", which is netem without a table."""
    if name == "uniform":
        return b""
    return struct.pack(f"={SIZE}h", *values(name))
