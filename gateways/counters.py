"""What a gateway counts; written by the bridge alone, read by the metrics page and the progress events."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """All since the start of the process.

    Attributes:
        received: messages taken, duplicates and bad ones included.
        delivered: records with Kafka's delivery report, dead letters included.
        duplicates: messages whose (vehicle, epoch, sequence) had passed before.
        flagged_duplicates: messages with the protocol's own mark (DUP, redelivered).
        dead_letters: messages that went to the dead-letter topic.
        older_epoch: messages of an epoch before the vehicle's newest.
        produce_errors: delivery reports with an error; each is sent again or becomes a dead letter.
        pauses: how often back-pressure stopped the intake.
        dropped_on_purpose: messages that a test asked to be lost here.
    """

    received: int = 0
    received_bytes: int = 0
    delivered: int = 0
    acknowledged: int = 0
    duplicates: int = 0
    flagged_duplicates: int = 0
    dead_letters: int = 0
    older_epoch: int = 0
    produce_errors: int = 0
    pauses: int = 0
    dropped_on_purpose: int = 0
    connections_lost: int = 0
    connected: int = 0
    last_connection_loss: str = ""

    def numbers(self) -> dict[str, int]:
        """Return every count by name."""
        return {k: v for k, v in dataclasses.asdict(self).items() if isinstance(v, int)}
