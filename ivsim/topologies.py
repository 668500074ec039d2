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
        bridged: gateways take the messages in, and deliver them.
        twins: they deliver into Kafka, and Spark keeps the twins; else into a platform, from which a consumer has them.
        echoed: each message comes back to a receiver beside its vehicle.
        edge: gateways, each with a broker of its own where there is one, stand with the vehicles; the link is theirs, to
            Kafka.
    """

    name: str
    meaning: str
    bridged: bool
    echoed: bool
    edge: bool = False
    twins: bool = False

    @property
    def accounting(self) -> Literal["gateway", "edge", "ingest", "echo", "peer"]:
        """Return where the ledger takes a message for delivered: in the twin, at the consumer or receiver, or by the peer's word.

        To twin and consumer, the loss timeout is about the gateway's receiving it, or at the edge about Kafka's.
        """
        if self.bridged and not self.twins:
            return "ingest"
        if self.bridged:
            return "edge" if self.edge else "gateway"
        return "echo" if self.echoed else "peer"


TOPOLOGIES: Final = {
    topology.name: topology
    for topology in (
        Topology(
            "gateway",
            "through broker and gateway into Kafka and the twin",
            bridged=True,
            echoed=False,
            twins=True,
        ),
        Topology(
            "edge",
            "to gateways at the vehicles' end, and from there over the link into Kafka and the twin",
            bridged=True,
            echoed=False,
            edge=True,
            twins=True,
        ),
        Topology(
            "ingest",
            "through broker and gateway into a platform, and from there to a consumer",
            bridged=True,
            echoed=False,
        ),
        Topology("echo", "back to a receiver beside the vehicle", bridged=False, echoed=True),
        Topology(
            "peer",
            "to the target and no further: its acknowledgement is all that is seen",
            bridged=False,
            echoed=False,
        ),
    )
}
# What a run takes when nothing is said.
USUAL_TOPOLOGY: Final = next(iter(TOPOLOGIES))
