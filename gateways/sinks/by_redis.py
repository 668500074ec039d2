"""The sink `redis`: each record an entry of a stream (schemas.platforms), in transactions of what has come meanwhile.

A transaction is carried out whole or not at all, and is repeated until Redis has answered it. Where the connection broke
before the answer, its entries may be there twice, which the ledger counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateways.sinks.kinds import SinkSettings
from gateways.sinks.threaded import AGAIN_S, OPEN_S, Sending, ThreadedSink
from schemas.errors import Refusal
from schemas.platforms import entry_of, partition_of, partitions_key, stream

# Of one transaction: what Redis carries out before it serves the next client.
MOST_RECORDS: Final = 500
# It is there again by itself, or takes records again once somebody has made room: memory, or a disk.
AWAY: Final = (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError)
LATER: Final = "caused error: MISCONF"
# proto-max-bulk-len as installed
LARGEST_BYTES: Final = 536_870_912


class RedisSink(ThreadedSink):
    """A connection that the thread has; what Redis does not take now (its memory is full, it reads its file) is offered again."""

    platform: ClassVar[str] = "Redis"

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__("redis-py", settings)
        self._queue: SimpleQueue[Sending | None] = SimpleQueue()
        self._partitions: dict[str, int] = {}
        host, _, port = settings.bootstrap.rpartition(":")
        self._client = redis.Redis(
            host,
            int(port),
            socket_timeout=OPEN_S,
            socket_connect_timeout=OPEN_S,
            retry=Retry(NoBackoff(), 0),  # a transaction without an answer may have been carried out
        )

    def _limits_of(self, topics: tuple[str, ...]) -> Mapping[str, int]:
        where = f"Redis at {self._settings.bootstrap}"
        try:
            found: dict[str, Any] = {topic: self._client.get(partitions_key(topic)) for topic in topics}
        except redis.RedisError as error:
            raise Refusal(f"{where} does not answer: {error}") from None
        if missing := [topic for topic, count in found.items() if count is None]:
            raise Refusal(f"{where} has no topic {', '.join(missing)}")
        self._partitions = {topic: int(count) for topic, count in found.items()}
        return dict.fromkeys(topics, LARGEST_BYTES)

    def _take(self, sending: Sending) -> None:
        self._queue.put(sending)

    def _serve(self, opened: Callable[[], None]) -> None:
        opened()
        while (first := self._queue.get()) is not None:
            gathered = [first]
            while len(gathered) < MOST_RECORDS:
                try:
                    one = self._queue.get_nowait()
                except Empty:
                    break
                if one is None:
                    self._queue.put(None)
                    break
                gathered.append(one)
            while not self._ending.is_set() and not self._carried_out(gathered):
                self._ending.wait(AGAIN_S)

    def _carried_out(self, gathered: list[Sending]) -> bool:
        """Return whether Redis has all of them."""
        batch: Any = self._client.pipeline(transaction=True)
        for topic, value, key, headers, _ in gathered:
            place = stream(topic, partition_of(key, self._partitions[topic]))
            batch.execute_command("XADD", place, "*", *entry_of(key, value, headers))
        try:
            batch.execute()
        except AWAY:
            return False
        except redis.ResponseError as error:
            if LATER not in str(error):
                raise  # it will never take such a record: the gateway's end has its words
            return False
        for sending in gathered:
            self._report(sending, None)
        return True

    def _end(self) -> None:
        self._queue.put(None)

    def _shut(self) -> None:
        self._client.close()


def opened(settings: SinkSettings) -> RedisSink:
    """Return the sink `redis`."""
    return RedisSink(settings)
