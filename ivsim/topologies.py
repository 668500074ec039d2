"""Which way messages take through the testbed: one table, read by options, preflight, components and studies.

A topology is facts, not code: whoever must decide something by it asks one of the facts below, never for its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Topology:
    """One way through the testbed.

    Attributes:
        name: the word of `--topology`.
        meaning: one clause for the help text.
        bridged: gateways take the messages into Kafka, and Spark keeps the twins.
        echoed: each message comes back to a receiver beside its vehicle.
    """

    name: str
    meaning: str
    bridged: bool
    echoed: bool

    @property
    def accounting(self) -> Literal["gateway", "echo", "peer"]:
        """Return where the ledger takes a message for delivered: in the twin, at the receiver, or by the peer's word."""
        if self.bridged:
            return "gateway"
        return "echo" if self.echoed else "peer"


TOPOLOGIES: Final = {
    topology.name: topology
    for topology in (
        Topology("gateway", "through broker and gateway into Kafka and the twin", bridged=True, echoed=False),
        Topology("echo", "back to a receiver beside the vehicle", bridged=False, echoed=True),
        Topology(
            "peer",
            "to the target and no further: its acknowledgement is all that is seen",
            bridged=False,
            echoed=False,
        ),
    )
}
