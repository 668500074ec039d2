"""Runs without vehicles: logs and Kafka records written by hand, with a known place for every message."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from ledger.config import LedgerConfig
from ledger.sources import KAFKA_RECORD, KAFKA_RECORDS, KEPT_HEADERS
from schemas.topics import vehicle_id
from tests import oracle
from twin.config import TwinConfig

SECOND = 1_000_000_000
LOSS_TIMEOUT_S = 2.0
EMISSION_TYPES = pa.schema(
    [("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64()), ("sampled_at_ns", pa.int64()),
     ("due_at_ns", pa.int64()), ("emitted_at_ns", pa.int64()), ("acknowledged_at_ns", pa.int64()),
     ("received_at_ns", pa.int64()), ("payload_bytes", pa.int32()), ("unsent_reason", pa.string()),
     ("buffered", pa.bool_()), ("reached_cloud_at_ns", pa.int64()), ("held_back", pa.bool_()),
     ("refused_at_ns", pa.int64()), ("refused_reason", pa.string()), ("refused_by", pa.string()),
     ("unanswered_at_ns", pa.int64())]
)  # fmt: skip
_NAMES = [("vehicle_id", pa.string()), ("epoch", pa.int32()), ("sequence", pa.int64())]
RECEIVED_TYPES = pa.schema([*_NAMES, ("received_at_ns", pa.int64())])
IN_FLIGHT_TYPES = pa.schema([*_NAMES, ("noted_at_ns", pa.int64())])


CONNECTION_TYPES = pa.schema(
    [
        ("vehicle_id", pa.string()),
        ("event", pa.string()),
        ("at_ns", pa.int64()),
        ("handshake_ns", pa.int64()),
        ("session_present", pa.bool_()),
        ("backlog", pa.int64()),
    ]
)


def status_headers(
    epoch: Any, sequence: Any, sampled_at_ns: Any, received_at_ns: Any, **other: Any
) -> list[tuple[str, bytes]]:
    words = {"format": "protobuf", "protocol": "mqtt", "mode": "qos1", "epoch": epoch, "sequence": sequence,
             "sampled_at_ns": sampled_at_ns, "received_at_ns": received_at_ns} | other  # fmt: skip
    return [(name, str(value).encode()) for name, value in words.items() if value is not None]


def payload_of(identity: str, length: int = 300) -> bytes:
    return b"\x0a\x11" + identity.encode() + b"." * (length - 19)


class MadeUpRun:
    """Collects what the logs and the topics of a run are to hold, then writes it."""

    def __init__(self, config: TwinConfig) -> None:
        self.config = config
        self.start_at_ns = time.time_ns() - 60 * SECOND
        self.emissions: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self.in_flight: list[dict[str, Any]] = []
        self.connections: list[dict[str, Any]] = []

    @property
    def ledger(self) -> LedgerConfig:
        """What the ledger of the run is told."""
        return LedgerConfig(
            run_dir=self.config.run_dir, topology=self.config.topology, loss_timeout_s=LOSS_TIMEOUT_S
        )

    @cached_property
    def producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.config.bootstrap, "message.max.bytes": 20_000_000})

    def due(self, vehicle: int, sequence: int, epoch: int = 1, **stamps: Any) -> dict[str, Any]:
        due = self.start_at_ns + sequence * SECOND // 2 + vehicle * 1_000_003
        row = {"vehicle_id": vehicle_id(vehicle), "epoch": epoch, "sequence": sequence, "sampled_at_ns": due, "due_at_ns": due,
               "emitted_at_ns": due + 1_000, "acknowledged_at_ns": None, "received_at_ns": None, "payload_bytes": 300,
               "unsent_reason": None, "buffered": False, "reached_cloud_at_ns": None, "held_back": None,
               "refused_at_ns": None, "refused_reason": None, "refused_by": None, "unanswered_at_ns": None} | stamps  # fmt: skip
        self.emissions.append(row)
        return row

    def take(self, row: dict[str, Any], delay_ns: int = 40_000_017) -> int:
        at = (row["emitted_at_ns"] or row["due_at_ns"]) + delay_ns
        self.received.append(
            {name: row[name] for name in ("vehicle_id", "epoch", "sequence")} | {"received_at_ns": at}
        )
        return at

    def leave(self, row: dict[str, Any], noted_at_ns: int) -> None:
        """Have the gateway send the message's record to Kafka, and end without its answer."""
        names = {name: row[name] for name in ("vehicle_id", "epoch", "sequence")}
        self.in_flight.append(names | {"noted_at_ns": noted_at_ns})

    def append(
        self, row: dict[str, Any], received_at_ns: int, topic: str | None = None, **other: Any
    ) -> None:
        identity = row["vehicle_id"]
        headers = status_headers(row["epoch"], row["sequence"], row["sampled_at_ns"], received_at_ns, **other)
        self.produce(
            topic or self.config.topics.status, identity, payload_of(identity, row["payload_bytes"]), headers
        )

    def produce(
        self, topic: str, key: str | None, value: bytes | None, headers: list[tuple[str, bytes]] | None
    ) -> None:
        self.producer.produce(topic, value, key, headers=headers)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(30) == 0

    def write(self, **run: Any) -> None:
        """Write the logs; `run` goes into run.json."""
        self.flush()
        pq.write_table(
            pa.Table.from_pylist(self.emissions, EMISSION_TYPES), self.config.run_file("emissions.parquet")
        )
        pq.write_table(
            pa.Table.from_pylist(self.received, RECEIVED_TYPES), self.config.run_file("received.parquet")
        )
        pq.write_table(
            pa.Table.from_pylist(self.in_flight, IN_FLIGHT_TYPES), self.config.run_file("in_flight.parquet")
        )
        end = max(row["due_at_ns"] for row in self.emissions) + 1
        words = {
            "start_at_ns": self.start_at_ns,
            "warmup_s": 0.0,
            "end_at_ns": end,
            "stop_at_ns": end + 100 * SECOND,
            "backlog_max": 3,
        }
        self.config.run_file("run.json").write_text(json.dumps(words | run))
        pq.write_table(
            pa.Table.from_pylist(self.connections, CONNECTION_TYPES),
            self.config.run_file("connections.parquet"),
        )
        self.config.run_file("clock.json").write_text('{"clock_drift_ms": 0.25}')

    def write_link(self, rng: random.Random, seconds: int, vehicles: int) -> None:
        rows = [
            {"second": s, "vehicle_id": vehicle_id(v), "direction": way,
             "asked_rate_bps": rng.choice([None, rng.uniform(1e4, 5e7)]), "asked_delay_ms": rng.uniform(5, 80),
             "asked_loss_ratio": rng.uniform(0, 0.1), "wire_bytes": rng.randrange(5_000), "wire_packets": 5,
             "qdisc_bytes": rng.randrange(5_000), "qdisc_packets": rng.randrange(20), "drops": rng.randrange(3),
             "backlog_bytes": 0, "probe_delay_ms": rng.choice([None, rng.uniform(5, 80)])}
            for s in range(-2, seconds) for v in range(1, vehicles + 1) for way in ("uplink", "downlink")
        ]  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows), self.config.run_file("link.parquet"))


def await_taken(config: TwinConfig, messages: int, timeout_s: float = 60.0) -> None:
    """Return once the twins have counted so many messages."""
    deadline_s = time.monotonic() + timeout_s
    while (taken := _taken(config)) < messages:
        assert time.monotonic() < deadline_s, f"the twins have taken {taken} of {messages} messages"
        time.sleep(0.1)


def _taken(config: TwinConfig) -> int:
    newest: dict[bytes, int] = defaultdict(int)
    for record in oracle.read_topic(config.bootstrap, config.topics.state):
        newest[record["key"]] = max(newest[record["key"]], int(record["headers"]["messages"]))
    return sum(newest.values())


class KeptRun(MadeUpRun):
    """The same without a Kafka: what would be in its topics is in kafka_records.parquet, as of a run that is over."""

    def __init__(self, config: TwinConfig) -> None:
        super().__init__(config)
        self._kept: list[dict[str, Any]] = []

    def produce(
        self, topic: str, key: str | None, value: bytes | None, headers: list[tuple[str, bytes]] | None
    ) -> None:
        name, said = None if key is None else key.encode(), dict(headers or [])
        self._kept.append(
            {"topic": topic, "partition": 0, "offset": len(self._kept),
             "appended_at_ns": time.time_ns() // 1_000_000 * 1_000_000, "key": name,
             "value_bytes": None if value is None else len(value),
             "value_has_key": None if value is None or name is None else name in value,
             **{f"header_{header}": said.get(header) for header in KEPT_HEADERS}}
        )  # fmt: skip

    def flush(self) -> None:
        pq.write_table(pa.Table.from_pylist(self._kept, KAFKA_RECORD), self.config.run_file(KAFKA_RECORDS))
