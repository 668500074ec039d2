"""Whether a gateway does its work: it has its connection, and Kafka confirms what it is given; it asks nobody itself."""

from __future__ import annotations

from typing import Final, NamedTuple

# Longer than a broker of a cluster takes to take over from one that has died.
STALLED_S: Final = 30.0


class Verdict(NamedTuple):
    """What is wrong with a gateway; nothing is when `problems` is empty."""

    problems: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not self.problems


class Health:
    """Remembers when Kafka last confirmed a record while some were held.

    Args:
        now_s: of a clock that never goes back.
    """

    def __init__(self, now_s: float) -> None:
        self._delivered = 0
        self._moved_s = now_s

    def note(self, held: int, delivered: int, now_s: float) -> None:
        """Take what is held, and what has been confirmed since the start, at a moment."""
        if not held or delivered != self._delivered:
            self._delivered, self._moved_s = delivered, now_s

    def verdict(self, connected: bool, loss: str, held: int, now_s: float) -> Verdict:
        """Return what is wrong now.

        Args:
            connected: the intake has its connection, or listens.
            loss: why it has not.
            held: records that Kafka has not confirmed.
            now_s: of the same clock.
        """
        problems = []
        if not connected:
            problems.append(f"no connection: {loss or 'not yet'}")
        waited_s = now_s - self._moved_s
        if held and waited_s >= STALLED_S:
            problems.append(f"Kafka has confirmed nothing for {waited_s:.0f} s: {held} records wait")
        return Verdict(tuple(problems))
