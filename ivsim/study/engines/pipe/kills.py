"""A kill -9 inside a measurement: who, when, and what was seen of it; the one killed is started again at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

PRODUCER, CONSUMER, BROKER = "producer", "consumer", "broker"
FORM: Final = "producer@5s, consumer@5s or broker@5s; of several the first, or by number: consumer-1@5s"
_KILL: Final = re.compile(r"(producer|consumer|broker)(?:-([0-9]{1,4}))?@([0-9]{1,6}(?:\.[0-9]{1,3})?)s")


class Kill(NamedTuple):
    """What `--kill` says.

    Attributes:
        role: producer, consumer or broker.
        which: of them, from 0.
        at_s: seconds from the start.
    """

    role: str
    which: int
    at_s: float


@dataclass
class Killed:
    """What became of it.

    Attributes:
        role: producer, consumer or broker.
        index: which of them.
        killed_at_ns: once the process was gone.
        back_at_ns: when the one in its place was ready; 0 before.
    """

    role: str
    index: int
    killed_at_ns: int
    back_at_ns: int = 0

    @property
    def outage_s(self) -> float:
        return (self.back_at_ns - self.killed_at_ns) / 1e9


def kill_of(text: str) -> Kill:
    """Return what a word says; ValueError for one that says no kill."""
    match = _KILL.fullmatch(text)
    if match is None:
        raise ValueError(f"expected {FORM}")
    return Kill(match[1], int(match[2] or 0), float(match[3]))
