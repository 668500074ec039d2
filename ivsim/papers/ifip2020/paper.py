"""What the paper measured, and how the claims find it in the observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ivsim.study.claims import Ordering, Published, RepetitionCount
from ivsim.study.clusters import Clusters
from ivsim.study.engines.echo.observations import (
    EchoObservations,
    Observations,
    compare_latency,
    compare_overhead,
)
from ivsim.study.statistics import Comparison

MQTT: Final = ("mqtt qos0", "mqtt qos1", "mqtt qos2")
AMQP: Final = ("amqp auto", "amqp manual")
NON: Final = "coap non"
CON: Final = "coap con"
TCP: Final = (*MQTT, *AMQP)
MODES: Final = (*TCP, NON, CON)
LOSSES: Final = (0.0, 0.01, 0.05, 0.1, 0.25)
SIZES: Final = ("large", "small")
MESSAGE_BYTES: Final = (100, 500, 1000, 1400, 2500, 5000)
FACTORS: Final = (0.5, 2.0, 5.0, 10.0)
# The largest block of CoAP (RFC 7959, 2.2), the default here.
BLOCK_BYTES: Final = 1_024
# The largest of the sizes that an MTU of 1,500 bytes takes in one datagram.
WHOLE_BYTES: Final = 1_400
# What "flat" and "near" allow, as a share of the figure compared with.
FLAT_SHARE: Final = 0.15
NEAR_SHARE: Final = 0.25
# A difference of two means that matters: more than a standard deviation of the RTT that the paper draws, and more than
# a twentieth of the lower one.
RTT_DEVIATION_MS: Final = 5.6
SAME_SHARE: Final = 0.05
# Bytes that count as alike; brokers and clients are not the paper's, and differ by a few.
SAME_BYTES: Final = 15.0
# What the paper's own ping took between its two machines, in ms.
PING: Final = Published(2.52, 1.37, 200)

Pair = Callable[[EchoObservations, EchoObservations], Comparison | None]


def pings_together(sessions: Sequence[Sequence[float]]) -> Clusters:
    """Return the pings of several sessions, each ping on its own."""
    values = [np.asarray(one, dtype=np.float64) for one in sessions]
    return Clusters(
        np.concatenate([*values, np.empty(0)]),
        np.repeat(np.arange(len(values)), [one.size for one in values]),
        np.concatenate([*(np.arange(one.size) for one in values), np.empty(0, np.int64)]),
        len(values),
        max((one.size for one in values), default=0),
        "ping",
    )


class PaperCells(RepetitionCount, Observations):
    """The measured cells as the claims find them."""

    def __init__(
        self,
        cells: Sequence[EchoObservations],
        ping_ms: Sequence[float] = (),
        paper_pings: Clusters | None = None,
    ) -> None:
        RepetitionCount.__init__(self)
        Observations.__init__(self, cells, ping_ms)
        self.paper_pings = pings_together([]) if paper_pings is None else paper_pings

    def get(self, sweep: str, mode: str, **values: Any) -> EchoObservations | None:
        cell = super().get(sweep, mode, **values)
        if cell is not None:
            self.looked_at(len(cell.repetitions))
        return cell


class WholeCells(PaperCells):
    """The same, with CoAP's messages above a block in one datagram as long as that fits (--coap-block-bytes none).

    Messages of one block, and those above the path's MTU, are the same datagrams either way, and measured once.
    """

    SWEEPS: Final = MappingProxyType(
        {"loss_large": "whole_large", "sizes": "whole_sizes", "rates": "whole_rates"}
    )

    def __init__(self, in_blocks: PaperCells) -> None:
        super().__init__([], in_blocks.ping_ms, in_blocks.paper_pings)
        self._in_blocks = in_blocks

    def get(self, sweep: str, mode: str, **values: Any) -> EchoObservations | None:
        if mode in (NON, CON) and BLOCK_BYTES < values.get("message_bytes", WHOLE_BYTES) <= WHOLE_BYTES:
            sweep = self.SWEEPS.get(sweep, sweep)
        cell = self._in_blocks.get(sweep, mode, **values)
        if cell is not None:
            self.looked_at(len(cell.repetitions))
        return cell


def at(observations: Observations, size: str, mode: str, loss: float) -> EchoObservations | None:
    """Return the cell of a size, mode and loss rate; None where it was not measured."""
    return observations.get(f"loss_{size}", mode, loss=loss)


def difference(
    test: Pair, lower: EchoObservations | None, higher: EchoObservations | None
) -> Comparison | None:
    """Return higher minus lower by a test; None where one was not measured."""
    return None if lower is None or higher is None else test(lower, higher)


def margin_ms(*cells: EchoObservations | None) -> float:
    """Return the smallest difference of latencies that matters between cells; what is not measured counts for nothing."""
    means = [mean for cell in cells if cell is not None and (mean := cell.latency().estimate) is not None]
    return max(RTT_DEVIATION_MS, SAME_SHARE * min(means, default=0.0))


def faster(text: str, lower: EchoObservations | None, higher: EchoObservations | None) -> Ordering:
    """Return the claim that the first cell's latency is lower, with its margin."""
    return Ordering(text, difference(compare_latency, lower, higher), "ms", margin_ms(lower, higher))


def leaner(
    text: str, lower: EchoObservations | None, higher: EchoObservations | None, margin: float = SAME_BYTES
) -> Ordering:
    """Return the claim that the first cell's overhead is lower, with its margin."""
    return Ordering(text, difference(compare_overhead, lower, higher), "B", margin)


def percent(loss: float) -> str:
    return f"{loss:.0%}"
