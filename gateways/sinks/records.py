"""What Kafka takes of a record, whichever library sends it."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

# Errors that no repetition cures: the record itself is at fault and goes to the dead letters.
POISON: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
LARGEST_BYTES: Final = 16_000_000
