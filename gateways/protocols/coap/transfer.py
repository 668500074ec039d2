"""One message on its way over CoAP and how long its answers take; it sends nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from gateways.protocols.coap.message_layer import Exchange
from gateways.protocols.coap.parameters import TransmissionParameters


class RoundTrip:
    """How long a NON exchange may take: RFC 6298's estimate, without its back-off.

    A late answer raises the estimate; a lost one does not, for loss is what a NON message is meant to meet.
    """

    first_s: Final = 1.0
    least_s: Final = 0.2
    most_s: Final = 2.0  # ACK_TIMEOUT: what a CON would wait before its first retransmission

    def __init__(self) -> None:
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def sample(self, seconds: float) -> None:
        """Take one measured round trip."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = seconds, seconds / 2
            return
        self._variation_s += (abs(self._smoothed_s - seconds) - self._variation_s) / 4
        self._smoothed_s += (seconds - self._smoothed_s) / 8

    def timeout_s(self) -> float:
        """Return how long to wait for an answer."""
        if self._smoothed_s is None:
            return self.first_s
        return min(self.most_s, max(self.least_s, self._smoothed_s + 4 * self._variation_s))


class Responsiveness:
    """Whether the peer responds, and how slowly it is probed while it does not (RFC 7252, 4.7).

    The RFC bounds what goes to an endpoint that does not respond to PROBING_RATE, one byte a second on average,
    and leaves open when an endpoint is one. Here it is when as many requests in a row have met silence as a CON
    has transmissions before its sender gives up (4.2). Nothing but Empty CONs of four bytes then goes out, one
    each four seconds, until anything comes back: a message of a kilobyte would have to wait a quarter of an hour.
    """

    ping_bytes: Final = 4

    def __init__(self, parameters: TransmissionParameters) -> None:
        self.silent = False
        self.probe_interval_s = self.ping_bytes / parameters.probing_rate_bytes_per_s
        self._unanswered_max = 1 + parameters.max_retransmit
        self._unanswered = 0

    def sent(self) -> None:
        """Count one request that the peer should answer."""
        self._unanswered += 1

    def unanswered(self) -> None:
        """The time for an answer to the latest request is over."""
        self.silent = self._unanswered >= self._unanswered_max

    def gave_up(self) -> None:
        """A CON has been retransmitted in vain."""
        self.silent = True

    def heard(self) -> None:
        """Anything has come from the peer."""
        self._unanswered, self.silent = 0, False


@dataclass(slots=True)
class Transfer:
    """One message on its way, with where its next block starts.

    Attributes:
        token: the sender's name for the message.
        size_exponent: of its blocks, 0 for 16 bytes to 6 for 1,024 (RFC 7959, 2.2); None sends it whole.
        request: CoAP token of the request that awaits its response; empty when none does.
        first_sent_at_s: when that request left; `sent_at_s`: when it left last.
        exchange: the exchange of that request, in confirmable mode.
        patience_s: how long to wait after the next empty acknowledgement before asking again.
        tag: Request-Tag (RFC 9175, 3), which keeps two block-wise uploads at once apart; None sends none.
        lingering: ends the wait for an answer that comes after the vehicle has gone on.
        asked: tokens of the requests that carried its last block; a late answer to any of them counts.
    """

    token: int
    payload: bytes
    size_exponent: int | None
    offset: int = 0
    attempts: int = 0
    request: bytes = b""
    first_sent_at_s: float = 0.0
    sent_at_s: float = 0.0
    exchange: Exchange | None = None
    patience_s: float = 0.0
    tag: bytes | None = None
    lingering: asyncio.TimerHandle | None = None
    asked: list[bytes] = field(default_factory=list)

    @property
    def block_bytes(self) -> int:
        """Return how much of the payload one request carries."""
        return len(self.payload) if self.size_exponent is None else 1 << (self.size_exponent + 4)

    def part(self) -> bytes:
        """Return what of the payload the next request carries."""
        return self.payload[self.offset : self.offset + self.block_bytes]

    def more(self) -> bool:
        """Say whether the next request is not the last one."""
        return self.offset + self.block_bytes < len(self.payload)

    def block(self) -> tuple[int, bool, int] | None:
        """Return the Block1 option's value: number, more, size exponent (RFC 7959, 2.1); None without one."""
        if self.size_exponent is None:
            return None
        return self.offset // self.block_bytes, self.more(), self.size_exponent
