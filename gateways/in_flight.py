"""Notes the records that had left a gateway, and that Kafka had not answered, when the gateway ended."""

from __future__ import annotations

import time
from pathlib import Path

from gateways.delivery import EPOCH, SEQUENCE
from gateways.kafka_delivery import Record
from gateways.receive_log import ReceiveLog


class InFlightLog:
    """A log of the receive log's form, written when the producer gives its requests up; close it behind the producer.

    A request that is here was handed to the kernel whole: whether Kafka has its records, Kafka's topics say.

    Args:
        path: of the file.
        topic: whose records are noted; dead letters are none of the ledger's matters.
    """

    def __init__(self, path: Path, topic: str) -> None:
        self._log, self._topic = ReceiveLog(path), topic

    def note(self, record: Record) -> None:
        """Note one record, at the time at which it was given up."""
        if record.topic != self._topic:
            return
        headers = dict(record.headers)
        self._log.append(record.key, int(headers[EPOCH]), int(headers[SEQUENCE]), time.time_ns())

    def close(self) -> None:
        """Write what is noted and close; idempotent."""
        self._log.close()
