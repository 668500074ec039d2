"""What a gateway counts; written by the bridge alone, read by the metrics page and the progress events."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


def _count(meaning: str) -> int:
    count: int = field(default=0, metadata={"meaning": meaning})
    return count


@dataclass(slots=True)
class Counters:
    """All since the start of the process; what each means stands with it, for the metrics page too."""

    received: int = _count("Messages taken, duplicates and bad ones included.")
    received_bytes: int = _count("Bytes of their payloads.")
    delivered: int = _count("Records that the platform has confirmed, dead letters included.")
    acknowledged: int = _count("Messages acknowledged to the protocol's peer.")
    duplicates: int = _count("Messages whose vehicle, epoch and sequence had passed before.")
    flagged_duplicates: int = _count("Messages with the protocol's own mark (DUP, redelivered).")
    dead_letters: int = _count("Messages that went to the dead letters.")
    older_epoch: int = _count("Messages of an epoch before the vehicle's newest.")
    produce_errors: int = _count("Records refused at first: sent again or written to the dead letters.")
    batches: int = _count("Batches that --batching gave to the producer.")
    full_batches: int = _count(
        "Those of them that their count closed; age, a change or the end closed the others."
    )
    pauses: int = _count("How often back-pressure stopped the intake.")
    dropped_on_purpose: int = _count("Messages that a test asked to be lost here.")
    connections_lost: int = _count("Connections of the intake that ended unasked.")
    connections_refused: int = _count(
        "Attempts to have it again that the peer refused, such as for a password."
    )
    connected: int = _count("1 while the intake has its connection, or listens.")
    connected_at_ns: int = _count(
        "When the intake last got its connection, its subscription included; ns since 1970, 0 before."
    )
    last_connection_loss: str = ""
    last_refusal: str = ""

    def numbers(self) -> dict[str, int]:
        """Return every count by name."""
        return {k: v for k, v in dataclasses.asdict(self).items() if isinstance(v, int)}


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        **{f.name: f.metadata["meaning"] for f in dataclasses.fields(Counters) if f.metadata},
        "held": "Records that the platform has not confirmed yet.",
        "held_bytes": "Bytes of their payloads.",
        "paused": "1 while back-pressure keeps the intake from taking.",
    }
)
