"""CoAP's transmission parameters (RFC 7252, 4.8) and the times that follow from them (4.8.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TransmissionParameters:
    """RFC 7252, 4.8, table 2, with its defaults; `empty_ack_delay_s` is ours (5.2.2 leaves it open).

    NSTART is 1 and no parameter: 4.7 allows more only with congestion control beyond this document.
    """

    ack_timeout_s: float = 2.0
    ack_random_factor: float = 1.5
    max_retransmit: int = 4
    probing_rate_bytes_per_s: float = 1.0
    max_latency_s: float = 100.0
    empty_ack_delay_s: float = 0.1

    @property
    def max_transmit_span_s(self) -> float:
        """From the first transmission of a CON to its last."""
        return self.ack_timeout_s * float(2**self.max_retransmit - 1) * self.ack_random_factor

    @property
    def max_transmit_wait_s(self) -> float:
        """From the first transmission of a CON to the moment its sender gives up."""
        return self.ack_timeout_s * float(2 ** (self.max_retransmit + 1) - 1) * self.ack_random_factor

    @property
    def max_rtt_s(self) -> float:
        """Twice MAX_LATENCY and PROCESSING_DELAY, which is ACK_TIMEOUT."""
        return 2 * self.max_latency_s + self.ack_timeout_s

    @property
    def exchange_lifetime_s(self) -> float:
        """How long a Message ID of a CON names the same message."""
        return self.max_transmit_span_s + self.max_rtt_s

    @property
    def non_lifetime_s(self) -> float:
        """How long a Message ID of a NON names the same message."""
        return self.max_transmit_span_s + self.max_latency_s


PARAMETERS: Final = TransmissionParameters()
