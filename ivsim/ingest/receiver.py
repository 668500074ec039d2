"""What a consumer asks of a platform's client; `RECEIVERS` has one for each platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol

# Who waits for an answer longer than this has none.
ANSWER_S: Final = 5.0


class Taken(NamedTuple):
    """A record as the platform gave it: whose it is, and the headers that say which message."""

    key: bytes
    epoch: bytes
    sequence: bytes


class Receiver(Protocol):
    """A client that reads one topic from its first record, each record once as long as the platform lives.

    A platform that is away is waited for: `take` then returns nothing. One that says what cannot be is an error.
    """

    def take(self, timeout_s: float) -> Sequence[Taken]:
        """Return what has come, none when nothing comes in time."""

    def behind(self) -> bool:
        """Return whether the platform has records that were not taken; true as well while it does not answer."""

    def close(self) -> None:
        """Give everything back."""


RECEIVERS: Final[Mapping[str, str]] = {
    "kafka": "ivsim.ingest.by_kafka",
    "redis": "ivsim.ingest.by_redis",
    "pulsar": "ivsim.ingest.by_pulsar",
}


def opened(platform: str, bootstrap: str, topic: str, partitions: int, login: str = "") -> Receiver:
    """Return a receiver that begins to read.

    Args:
        platform: a key of RECEIVERS.
        bootstrap: its address.
        topic: to read.
        partitions: that it has.
        login: file by which one logs in at Kafka; "" goes there in the clear.
    """
    made: Receiver = import_module(RECEIVERS[platform]).opened(bootstrap, topic, partitions, login)
    return made
