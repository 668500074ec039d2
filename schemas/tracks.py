"""Per vehicle, which sequences have passed: finds duplicates, unwraps short sequences, drops nothing."""

from __future__ import annotations

_MISSING_MAX = 10_000


class Track:
    """One vehicle in one epoch.

    Attributes:
        expected: the sequence after the highest seen so far.
        missing: sequences skipped and not seen since, at most 10,000 of them.
    """

    __slots__ = ("epoch", "epoch_header", "expected", "key", "missing")

    def __init__(self, key: bytes, epoch: int) -> None:
        self.key = key
        self.restart(epoch)

    def restart(self, epoch: int) -> None:
        """Begin an epoch: the vehicle was started anew and counts from 1."""
        self.epoch = epoch
        self.epoch_header = ("epoch", b"%d" % epoch)
        self.expected = 1
        self.missing: set[int] = set()

    def seen_before(self, sequence: int) -> bool:
        """Note a sequence and say whether it has passed before, as far as is remembered."""
        if sequence >= self.expected:
            skipped = sequence - self.expected
            room = _MISSING_MAX - len(self.missing)
            if skipped > 0 and room > 0:
                self.missing.update(range(max(self.expected, sequence - room), sequence))
            self.expected = sequence + 1
            return False
        if sequence in self.missing:
            self.missing.discard(sequence)
            return False
        return True

    def unwrap(self, wrapped: int, modulus: int) -> int:
        """Return the sequence without end that a wrapping one stands for, by RFC 1982.

        The wrapped one runs from 1 to `modulus`; it means the candidate nearest to the highest seen. The very
        first of an epoch is taken as it is.
        """
        if self.expected == 1:
            return wrapped
        highest = self.expected - 1
        ahead = (wrapped - highest) % modulus
        if ahead > modulus // 2 and highest + ahead - modulus >= 1:
            return highest + ahead - modulus
        return highest + ahead
