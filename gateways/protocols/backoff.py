"""How a client waits before it tries a lost connection again; it knows no protocol."""

from __future__ import annotations

import random


class Backoff:
    """Waits that double with every attempt, each drawn between half and the whole (jitter)."""

    def __init__(self, first_s: float = 0.5, most_s: float = 30.0, rng: random.Random | None = None) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._rng = rng if rng is not None else random.Random()
        self._attempts = 0

    def next_s(self) -> float:
        """Return how long to wait before the next attempt."""
        whole_s = min(self._most_s, self._first_s * 2.0 ** min(self._attempts, 32))
        self._attempts += 1
        return whole_s * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Start again with the first wait, after a success."""
        self._attempts = 0
