"""Redis Streams' entries by redis-py; see schemas.platforms."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ivsim.ingest.receiver import ANSWER_S, Taken
from schemas.platforms import KEY, record_of, stream

_MOST: Final = 10_000
_AGAIN_S: Final = 0.05
# It is there again by itself; reading its file, too.
_AWAY: Final = (redis.ConnectionError, redis.TimeoutError)


class RedisReceiver:
    """Reads on behind the last entry of each stream; what a server that was killed has lost, it gives to nobody."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = redis.Redis(
            host,
            int(port),
            protocol=2,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )
        # An answer as it comes: stream, then id and fields of each entry.
        self._client.set_response_callback("XREAD", lambda answer, **_: answer)
        self._after: dict[Any, Any] = {stream(topic, one).encode(): b"0-0" for one in range(partitions)}

    def take(self, timeout_s: float) -> Sequence[Taken]:
        try:
            answer: Any = self._client.xread(self._after, count=_MOST, block=max(1, int(timeout_s * 1_000)))
        except _AWAY:
            time.sleep(_AGAIN_S)  # nobody tells when it is back: its next refusal comes at once
            return ()
        taken = []
        for name, entries in answer or ():
            for _, fields in entries:
                record = record_of(fields)
                taken.append(
                    Taken(record.get(KEY, b""), record.get(b"epoch", b""), record.get(b"sequence", b""))
                )
            self._after[name] = entries[-1][0]
        return taken

    def behind(self) -> bool:
        try:
            # Its stubs allow an awaitable.
            return bool(self._client.xread(self._after, count=1))
        except _AWAY:
            return True

    def close(self) -> None:
        self._client.close()


def opened(bootstrap: str, topic: str, partitions: int, _login: str) -> RedisReceiver:
    """Return a receiver that begins to read."""
    return RedisReceiver(bootstrap, topic, partitions)
