"""What a gateway knows at the end of a period of its own records, of its producer's answers and of its link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkState:
    """The path from a producer to its broker; what is not known is None, which is not 0.

    Attributes:
        request_ms: mean time of a request, from its last byte written to its answer.
        message_bytes: mean of a record in a request, with key, headers and framing.
        request_bytes: of a request beside its records, TCP's and IP's headers not included.
        rtt_ms: round trip of TCP, smoothed.
        loss_ratio: share of the segments sent that were lost, as retransmissions tell it.
        segment_bytes: TCP's payload in a full packet.
        congestion_control: TCP's algorithm.
    """

    request_ms: float | None = None
    message_bytes: float | None = None
    request_bytes: float | None = None
    rtt_ms: float | None = None
    loss_ratio: float | None = None
    segment_bytes: int | None = None
    congestion_control: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One period.

    Attributes:
        per_s: messages taken a second.
        answers_ms: of records confirmed in the period, the time from the end of their batch to Kafka's confirmation;
            empty when none was.
        late_ratio: share of the messages confirmed in the period that took longer than the limit; None without any.
        link: as far as it is known.
        held_back: back-pressure stopped the intake, so that more was offered than `per_s`, and nobody knows how much.
    """

    per_s: float
    answers_ms: tuple[float, ...] = ()
    late_ratio: float | None = None
    link: LinkState = LinkState()
    held_back: bool = False
