"""What the paper measured, and how the claims find it in the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ivsim.study.evidence import Evidence, Measured
from ivsim.study.statistics import Comparison

MQTT: Final = ("mqtt qos0", "mqtt qos1", "mqtt qos2")
AMQP: Final = ("amqp auto", "amqp manual")
NON: Final = "coap non"
CON: Final = "coap con"
TCP: Final = (*MQTT, *AMQP)
MODES: Final = (*TCP, NON, CON)
LOSSES: Final = (0.0, 0.01, 0.05, 0.1, 0.25)
SIZES: Final = ("large", "small")
# What "flat" and "near" allow, as a share of the figure compared with.
FLAT_SHARE: Final = 0.15
NEAR_SHARE: Final = 0.25

Pair = Callable[[Measured, Measured], Comparison | None]


def at(evidence: Evidence, size: str, mode: str, loss: float) -> Measured | None:
    """Return the cell of a size, mode and loss rate; None where it was not measured."""
    return evidence.get(f"loss_{size}", mode, loss=loss)


def difference(test: Pair, lower: Measured | None, higher: Measured | None) -> Comparison | None:
    """Return higher minus lower by a test; None where one was not measured."""
    return None if lower is None or higher is None else test(lower, higher)


def percent(loss: float) -> str:
    return f"{loss:.0%}"
