"""One message on its way over CoAP and how long its answers take; it sends nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

BLOCK_SIZE_EXPONENT: Final = 6  # 2 ** (6 + 4) = 1,024 bytes, the largest (RFC 7959, 2.2)


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


@dataclass(slots=True)
class Transfer:
    """One message on its way, with where its next block starts.

    Attributes:
        token: the pacer's name for the message.
        request: CoAP token of the request that awaits its response; empty when none does.
        tag: Request-Tag (RFC 9175, 3), which keeps two block-wise uploads at once apart; None sends none.
        lingering: ends the wait for an answer that comes after the vehicle has gone on.
        asked: tokens of the requests that carried its last block; a late answer to any of them counts.
    """

    token: int
    payload: bytes
    size_exponent: int = BLOCK_SIZE_EXPONENT
    offset: int = 0
    attempts: int = 0
    request: bytes = b""
    sent_at_s: float = 0.0
    tag: bytes | None = None
    lingering: asyncio.TimerHandle | None = None
    asked: list[bytes] = field(default_factory=list)

    @property
    def block_bytes(self) -> int:
        return 1 << (self.size_exponent + 4)

    def blockwise(self) -> bool:
        return len(self.payload) > self.block_bytes

    def block(self) -> tuple[int, bool, int]:
        """Return the Block1 option's value: number, more, size exponent (RFC 7959, 2.1)."""
        more = self.offset + self.block_bytes < len(self.payload)
        return self.offset // self.block_bytes, more, self.size_exponent
