"""Pulsar's messages by pulsar-client: a reader of each partition, so that no subscription holds anything back."""

from __future__ import annotations

import os
import queue
from collections.abc import Sequence
from typing import Any, Final

import pulsar

from ivsim.ingest.receiver import ANSWER_S, Taken
from schemas.platforms import PULSAR_NAMESPACE

_MOST: Final = 10_000
Ordinal = tuple[int, int, int]


class PulsarReceiver:
    """Messages come in the library's threads; a connection that comes back may give some again, which are left out."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        silent = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        self._client = pulsar.Client(bootstrap, logger=silent, operation_timeout_seconds=int(ANSWER_S))
        self._come: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._last: dict[str, Ordinal] = {}
        self._readers = [
            self._client.create_reader(
                f"persistent://{PULSAR_NAMESPACE}/{topic}-partition-{one}",
                pulsar.MessageId.earliest,
                reader_listener=self._came,
            )
            for one in range(partitions)
        ]

    def _came(self, _reader: pulsar.Reader, message: pulsar.Message) -> None:
        self._come.put(message)

    def take(self, timeout_s: float) -> Sequence[Taken]:
        taken: list[Taken] = []
        while len(taken) < _MOST:
            try:
                message = self._come.get_nowait() if taken else self._come.get(timeout=timeout_s)
            except queue.Empty:
                break
            found = message.message_id()
            ordinal = found.ledger_id(), found.entry_id(), found.batch_index()
            place = message.topic_name()
            if ordinal <= self._last.get(place, (-1, -1, -1)):
                continue
            self._last[place] = ordinal
            said = message.properties()
            taken.append(
                Taken(
                    message.partition_key().encode("latin-1"),
                    said.get("epoch", "").encode("latin-1"),
                    said.get("sequence", "").encode("latin-1"),
                )
            )
        return taken

    def behind(self) -> bool:
        if not self._come.empty():
            return True
        try:
            return any(reader.has_message_available() for reader in self._readers)
        except pulsar.PulsarException:
            return True

    def close(self) -> None:
        self._client.shutdown()


def opened(bootstrap: str, topic: str, partitions: int, _login: str) -> PulsarReceiver:
    """Return a receiver that begins to read."""
    return PulsarReceiver(bootstrap, topic, partitions)
