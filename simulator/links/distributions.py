"""netem's delay distribution tables, computed as iproute2 computes them; pure.

A table is the inverse cumulative distribution at equal steps, in units of the jitter, scaled by 8192 (the
kernel's NETEM_DIST_SCALE). iproute2 builds it from samples of the density (netem/normal.c, netem/pareto.c,
netem/paretonormal.c); these are the same quantiles, computed straight from the distribution.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Final

SIZE: Final = 4096  # TABLESIZE: 16384 / 4
SCALE: Final = 8192
PARETO_SHAPE: Final = 3.0  # netem/pareto.c: a = 3


def normal_quantile(u: float) -> float:
    return NormalDist().inv_cdf(u)


def pareto_quantile(u: float) -> float:
    """Return the quantile of Pareto(3), moved to mean 0 and scaled to standard deviation 1."""
    a = PARETO_SHAPE
    mean = a / (a - 1)
    deviation = math.sqrt(a / ((a - 1) ** 2 * (a - 2)))
    return (math.pow(1 - u, -1 / a) - mean) / deviation


def paretonormal_quantile(u: float) -> float:
    """Return iproute2's mixture of quantiles: a quarter normal, three quarters Pareto."""
    return 0.25 * normal_quantile(u) + 0.75 * pareto_quantile(u)


_QUANTILES: Final[dict[str, Callable[[float], float]]] = {
    "normal": normal_quantile,
    "pareto": pareto_quantile,
    "paretonormal": paretonormal_quantile,
}


@cache
def values(name: str) -> tuple[int, ...]:
    """Return the table as int16, its ends cut where int16 ends (four times the jitter)."""
    quantile = _QUANTILES[name]
    scaled = (round(quantile((i + 0.5) / SIZE) * SCALE) for i in range(SIZE))
    return tuple(max(-32768, min(32767, value)) for value in scaled)


@cache
def table(name: str) -> bytes:
    """Return TCA_NETEM_DELAY_DIST's payload; empty for "uniform", which is netem without a table."""
    if name == "uniform":
        return b""
    return struct.pack(f"={SIZE}h", *values(name))
