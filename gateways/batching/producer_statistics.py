"""What librdkafka's statistics say of requests: how long they take, and what they are made of.

Fields: https://github.com/confluentinc/librdkafka/blob/master/STATISTICS.md. `rtt` is of the interval, counts are since
the producer was made. What they call the bytes of messages (`txmsg_bytes`) leaves out headers, and so is of no use here.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Self

from gateways.batching.observation import LinkState

# Of a Produce request with one batch, beside its records and its topic's name, as librdkafka 2 writes it.
_REQUEST_BYTES = 108


class _Counts(NamedTuple):
    requests: int
    sent_bytes: int
    messages: int

    @classmethod
    def of(cls, statistics: dict[str, Any]) -> Self:
        brokers = statistics["brokers"].values()
        return cls(
            sum(broker.get("req", {}).get("Produce", 0) for broker in brokers),
            sum(broker["txbytes"] for broker in brokers if broker.get("req", {}).get("Produce", 0)),
            statistics["txmsgs"],
        )


class ProducerWatch:
    """Gathers the statistics of a period; times weigh as many requests as they are of.

    Args:
        topic: of nearly all records.
    """

    def __init__(self, topic: str) -> None:
        self._request_bytes = _REQUEST_BYTES + len(topic)
        self._before = self._now = _Counts(0, 0, 0)
        self._answered = 0
        self._answered_us = 0.0

    def take(self, text: str) -> None:
        """Add one callback's statistics."""
        statistics = json.loads(text)
        self._now = _Counts.of(statistics)
        for broker in statistics["brokers"].values():
            rtt = broker.get("rtt", {})
            self._answered += rtt.get("cnt", 0)
            self._answered_us += rtt.get("cnt", 0) * rtt.get("avg", 0)

    def end(self) -> LinkState:
        """Return what the period since the last end says of requests, and begin the next."""
        requests, sent_bytes, messages = (
            now - before for now, before in zip(self._now, self._before, strict=True)
        )
        record_bytes = sent_bytes - requests * self._request_bytes
        state = LinkState(
            request_ms=self._answered_us / self._answered / 1e3 if self._answered else None,
            message_bytes=record_bytes / messages if messages > 0 and record_bytes > 0 else None,
            request_bytes=self._request_bytes if requests > 0 else None,
        )
        self._before, self._answered, self._answered_us = self._now, 0, 0.0
        return state
