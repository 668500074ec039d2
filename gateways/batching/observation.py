"""What a gateway knows at the end of a period of its own records, of its producer's answers and of its link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observation:
    """One period; what was not seen in it is None, which is not 0.

    Attributes:
        per_s: messages taken a second.
        answers_ms: of records confirmed in the period, the time from the end of their batch to Kafka's confirmation;
            empty when none was.
        request_ms: mean time of a request of the producer, from its last byte sent to its answer.
        late_ratio: share of the messages confirmed in the period that took longer than the limit.
        rtt_ms: round trip of TCP to the broker, smoothed.
        loss_ratio: share of the packets sent that were lost, as retransmissions tell it.
    """

    per_s: float
    answers_ms: tuple[float, ...] = ()
    request_ms: float | None = None
    late_ratio: float | None = None
    rtt_ms: float | None = None
    loss_ratio: float | None = None
