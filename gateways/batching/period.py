"""Counts what a gateway takes and what Kafka confirms, period by period; has no clock and does no I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from gateways.batching.observation import LinkState, Observation

# Of so many of the last confirmations the time is kept: a law of more is no better, and costs memory.
_ANSWERS = 2_000


class Period:
    """What has happened since the last `end`.

    Times are seconds of a clock of the caller's that never goes back.

    Args:
        limit_ms: beyond it a message is late.
        begun_s: when the first period begins.
    """

    def __init__(self, limit_ms: float, begun_s: float) -> None:
        self._limit_s = limit_ms / 1e3
        self._answers_s: deque[float] = deque(maxlen=_ANSWERS)
        self.begin(begun_s)

    def begin(self, now_s: float) -> None:
        """Begin a period, and forget what was before."""
        self.taken = self._confirmed = self._late = 0
        self._answers_s.clear()
        self._begun_s = now_s

    def confirmed(self, taken_s: float, ended_s: float, now_s: float) -> None:
        """Count a message that was taken, whose batch was ended, and which Kafka has now."""
        self._confirmed += 1
        self._late += now_s - taken_s > self._limit_s
        self._answers_s.append(now_s - ended_s)

    def end(
        self, now_s: float, requests: LinkState, tcp: LinkState, *, held_back: bool = False
    ) -> Observation:
        """Return the period that ends, and begin the next.

        Args:
            now_s: after the beginning of the period.
            requests: what is known of the link by the producer's requests.
            tcp: what is known of it by TCP.
            held_back: back-pressure stopped the intake in the period.
        """
        link = replace(
            tcp,
            request_ms=requests.request_ms,
            message_bytes=requests.message_bytes,
            request_bytes=requests.request_bytes,
        )
        # A confirmation within the clock's resolution took no time that a law could be made of.
        answers_ms = tuple(answer_s * 1e3 for answer_s in self._answers_s if answer_s > 0)
        late_ratio = self._late / self._confirmed if self._confirmed else None
        observation = Observation(
            self.taken / (now_s - self._begun_s), answers_ms, late_ratio, link, held_back
        )
        self.begin(now_s)
        return observation
