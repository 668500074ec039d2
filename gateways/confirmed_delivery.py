"""A delivery that notes when the platform confirmed each record: what was confirmed and is nowhere, the platform has lost."""

from __future__ import annotations

import time
from collections.abc import Sized
from typing import Any, ClassVar, Final

from gateways.kafka_delivery import KafkaDelivery, Record
from gateways.receive_log import ReceiveLog
from gateways.sinks.sink import SinkError
from schemas.topics import HEADERS

_EPOCH: Final = HEADERS.index("epoch")
_SEQUENCE: Final = HEADERS.index("sequence")


class ConfirmedDelivery(KafkaDelivery):
    """Notes each record of messages at its report; dead letters are none of the ledger's matters.

    Its platform may be another than Kafka: whatever the sink says of a record is dealt with alike.

    Args:
        log: of the receive log's form; closed by its owner.
        others: of KafkaDelivery.
    """

    platform: ClassVar[str] = "the platform"

    def __init__(self, *, log: ReceiveLog, **others: Any) -> None:
        super().__init__(**others)
        self._log = log

    def poll(self) -> None:
        super().poll()
        self._log.flush()

    def _reported(self, record: Record, error: SinkError | None, message: Sized) -> None:
        if error is None and record.topic == self._topic:
            epoch, sequence = record.headers[_EPOCH][1], record.headers[_SEQUENCE][1]
            self._log.append(record.key, int(epoch), int(sequence), time.time_ns())
        super()._reported(record, error, message)
