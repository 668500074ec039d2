"""A link that changes from second to second, drawn from a seed: heavy-tailed path delay and levels of loss; pure.

Wu, Shang, Peng and Wolter (IEEE ISSRE 2020) evaluate their controller on a series of (delay, loss), with Pareto delay,
whose values they do not give. Here the delay is of the path and changes each second: where every packet drew its own,
packets would overtake each other, which TCP takes for loss.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from simulator.traces import Trace

# Of the delay; its variance is finite, as that of netem's own Pareto table.
SHAPE: Final = 3.0
# How long a level of loss is held, seconds: so long at least, and so much longer in the mean.
HELD_LEAST_S: Final = 3
HELD_MORE_S: Final = 4.0
# The series begins anew behind it.
LENGTH_S: Final = 600


def least_round_trip_ms(mean_ms: float) -> float:
    """Return what no second's round trip is below."""
    return mean_ms * (SHAPE - 1) / SHAPE


def changing(seed: int, rtt_ms: float, loss_ratio: float) -> Trace:
    """Return the series of a seed as a trace, a step each second.

    Args:
        seed: of the repetition.
        rtt_ms: mean round trip: Pareto of shape 3 from two thirds of it on.
        loss_ratio: mean loss; levels are uniform between 0 and twice that, and never above 1.
    """
    rng = np.random.default_rng([seed, 1])
    delays_ms = least_round_trip_ms(rtt_ms) * (1 + rng.pareto(SHAPE, LENGTH_S))
    losses = np.empty(LENGTH_S)
    at = 0
    while at < LENGTH_S:
        held_s = HELD_LEAST_S + int(rng.exponential(HELD_MORE_S))
        losses[at : at + held_s] = rng.uniform(0, min(1.0, 2 * loss_ratio))
        at += held_s
    return Trace(np.arange(LENGTH_S, dtype=np.float64), rtt_ms=delays_ms, loss_ratio=losses, source="seed")
