"""The files that a ledger is made of, and what must be in them; it judges no message."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ledger.config import LedgerConfig
from schemas.errors import Refusal
from schemas.topics import HEADERS

KEY: Final = ("vehicle_id", "epoch", "sequence")
EMISSIONS: Final = pa.schema(
    [
        ("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), ("sampled_at_ns", pa.int64()),
        ("due_at_ns", pa.int64()), ("emitted_at_ns", pa.int64()), ("acknowledged_at_ns", pa.int64()),
        ("refused_at_ns", pa.int64()), ("refused_reason", pa.string()), ("refused_by", pa.string()),
        ("unanswered_at_ns", pa.int64()), ("received_at_ns", pa.int64()), ("payload_bytes", pa.int32()),
        ("unsent_reason", pa.string()), ("buffered", pa.bool_()),
    ]
)  # fmt: skip
# Written by runs whose capture was joined to the log; null without.
REACHED_CLOUD: Final = "reached_cloud_at_ns"
HELD_BACK: Final = "held_back"
PROOFS: Final = {REACHED_CLOUD: "bigint", HELD_BACK: "boolean"}

EMISSION_LOG: Final = "emissions.parquet"
KAFKA_RECORDS: Final = "kafka_records.parquet"
# The topics in it, without the run's prefix.
STATUS_TOPIC: Final = "vehicle.status"
STATE_TOPIC: Final = "twin.state"
# The gateways' logs: when each took a message, and what it had sent to Kafka without an answer when it ended.
RECEIVED: Final = ("received.parquet", "received_at_ns")
IN_FLIGHT: Final = ("in_flight.parquet", "noted_at_ns")
# Where a platform is between gateway and consumer: when it confirmed a message to the gateway, and when the consumer had it.
CONFIRMED: Final = ("confirmed.parquet", "confirmed_at_ns")
CONSUMED: Final = ("consumed.parquet", "consumed_at_ns")
# In the latter's metadata: "true" where the consumer has read the platform to its end.
COMPLETE: Final = b"complete"
# The last headers of each record, by which it is judged, and the twin's own counter, in twin.state alone.
KEPT_HEADERS: Final = (*HEADERS, "messages")
KAFKA_RECORD: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("appended_at_ns", pa.int64()),
        ("key", pa.binary()),
        ("value_bytes", pa.int64()),
        ("value_has_key", pa.bool_()),
        *((f"header_{name}", pa.binary()) for name in KEPT_HEADERS),
    ]
)


def stamp_log(stamp: str) -> pa.Schema:
    """Return the columns of a log of the gateways' or the consumer's that notes this stamp."""
    return pa.schema(
        [("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), (stamp, pa.int64())]
    )


def emission_columns(config: LedgerConfig) -> list[str]:
    """Return, as SQL, the columns of the emission log; Refusal when it or a column is missing."""
    path = config.run_file(EMISSION_LOG)
    if not path.is_file():
        raise Refusal(f"{path}: no emission log, so nothing is known to be due")
    names = columns_of(path, EMISSIONS)
    proofs = [name if name in names else f"cast(null as {kind}) as {name}" for name, kind in PROOFS.items()]
    return [*EMISSIONS.names, *proofs]


def columns_of(path: Path, needed: pa.Schema) -> list[str]:
    """Return the names of a table's columns; Refusal when it cannot be read or has not all that are needed."""
    try:
        names: list[str] = pq.read_schema(path).names
    except (OSError, pa.ArrowInvalid) as error:
        raise Refusal(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    missing = [name for name in needed.names if name not in names]
    if missing:
        raise Refusal(f"{path}: column {missing[0]} is missing")
    return names


def messages_due(config: LedgerConfig) -> int:
    """Return how many messages the emission log names; 0 where there is none."""
    path = config.run_file(EMISSION_LOG)
    return int(pq.read_metadata(path).num_rows) if path.is_file() else 0
