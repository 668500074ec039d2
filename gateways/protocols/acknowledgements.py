"""Acknowledgements in order of receipt, whatever the order in which Kafka reports; the same for MQTT and AMQP.

Kafka's reports come back by partition and by batch, so a later message is often safe before an earlier one. MQTT 5 wants
PUBACK and PUBREC in the order in which the messages came (MQTT-4.6.0-2, MQTT-4.6.0-3), and AMQP 0-9-1 lets one basic.ack
cover all up to a tag, which is only right when all of them are settled. Both wait for the oldest that is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar


class ConnectionReceipt:
    """One message taken over one connection: what the bridge holds, and gives back once Kafka has it.

    Attributes:
        generation: the connection it came over; of another one it can no longer be acknowledged.
        number: the peer's name for it on that connection (packet identifier, delivery tag).
        settled: nothing more is to be waited for.
    """

    __slots__ = ("generation", "number", "settled")

    def __init__(self, generation: int, number: int) -> None:
        self.generation = generation
        self.number = number
        self.settled = False


D = TypeVar("D", bound=ConnectionReceipt)


class AcknowledgementQueue(Generic[D]):
    """The receipts of one connection that are not acknowledged, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[D] = deque()
        self.received = self._waiting.append

    def __len__(self) -> int:
        return len(self._waiting)

    def clear(self) -> None:
        """Forget all, when their connection is gone."""
        self._waiting.clear()

    def due(self) -> bool:
        """Say whether the oldest is settled."""
        return bool(self._waiting) and self._waiting[0].settled

    def settled(self) -> Iterator[D]:
        """Yield and forget those at the front that are settled."""
        waiting = self._waiting
        while waiting and waiting[0].settled:
            yield waiting.popleft()
