"""Copies what the yardsticks have counted so far to `run.emissions` and `run.link`, for live figures only.

The logs themselves stay where they are: the ledger reads them from disk, never from Kafka.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from ivsim.parts import Parts
from schemas.topics import vehicle_id
from simulator.emission_log import Kind
from simulator.emission_table import EVENT
from simulator.wire.counting import COUNTS
from simulator.wire.counting import RECORD as WIRE_RECORD
from simulator.wire.fields import DIRECTIONS
from simulator.wire.second_log import MAGIC

PERIOD_S = 1.0
FLUSH_S = 5.0
IP_BYTES = COUNTS.index("ip_bytes")


class Tail:
    """Reads the whole records that a growing file has gained since the last time."""

    def __init__(self, path: Path, dtype: np.dtype[Any], skip_bytes: int = 0) -> None:
        self._path, self._dtype, self._at = path, dtype, skip_bytes

    def read(self) -> npt.NDArray[Any]:
        """Return the new records; empty while the file is missing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            data = b""
        whole = len(data) // self._dtype.itemsize
        self._at += whole * self._dtype.itemsize
        return np.frombuffer(data, self._dtype, whole)


class Feed:
    """A thread that follows both logs while the run goes, and keeps the totals for the display."""

    def __init__(self, parts: Parts, start_at_ns: int) -> None:
        path = parts.directory.path
        self._parts, self._start_at_ns = parts, start_at_ns
        self._emissions = Tail(parts.directory.emission_events, EVENT)
        self._wire = Tail(path / "wire.events", WIRE_RECORD, len(MAGIC))
        self._producer: Producer | None = None
        if parts.bootstrap:
            self._producer = Producer({"bootstrap.servers": parts.bootstrap, "linger.ms": 50, "log_level": 2})
        self._totals: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Copy what is left and stop; idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self._copy()
            if self._producer is not None:
                self._producer.flush(FLUSH_S)

    def row(self) -> dict[str, Any]:
        """Return the figures a person wants to see while the run goes."""
        with self._lock:
            totals = dict(self._totals)
        live = self._parts.watch.live() if self._parts.watch is not None else {}
        contained = self._parts.watch.contained() if self._parts.watch is not None else totals.get("received")
        return {
            "emitted": totals.get("emitted", 0),
            "acknowledged": totals.get("acknowledged", 0),
            "in twin": contained,
            "unsent": totals.get("unsent", 0),
            "wire kB": round(totals.get("ip_bytes", 0) / 1000, 1),
            "p50 ms": live.get("end_to_end_latency_p50_ms"),
            "p99 ms": live.get("end_to_end_latency_p99_ms"),
        }

    def totals(self) -> dict[str, int]:
        """Return emitted, acknowledged, unsent, received and refused messages so far."""
        with self._lock:
            return dict(self._totals)

    def _follow(self) -> None:
        while not self._closing.wait(PERIOD_S):
            self._copy()

    def _copy(self) -> None:
        self._copy_emissions(self._emissions.read())
        self._copy_wire(self._wire.read())
        if self._producer is not None:
            self._producer.poll(0)

    def _copy_emissions(self, events: npt.NDArray[Any]) -> None:
        kinds = {Kind.EMITTED: "emitted", Kind.UNSENT: "unsent"}
        with self._lock:
            for kind in Kind:
                self._totals[kind.name.lower()] += int((events["kind"] == kind).sum())
        counts: Counter[tuple[int, int, str]] = Counter()
        for event in events[np.isin(events["kind"], list(kinds))]:
            second = int(event["at_ns"]) // 1_000_000_000
            counts[int(event["vehicle"]), second, kinds[Kind(event["kind"])]] += 1
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        for (vehicle, second, name), count in counts.items():
            row = rows.setdefault((vehicle, second), {"emitted": 0, "unsent": 0})
            row[name] = count
        for (vehicle, second), row in rows.items():
            self._send(self._parts.topics.emissions, vehicle, {"second": second, **row})

    def _copy_wire(self, records: npt.NDArray[Any]) -> None:
        with self._lock:
            self._totals["ip_bytes"] += int(records["counts"][:, IP_BYTES].sum())
        for record in records:
            if record["vehicle"] and record["direction"] < len(DIRECTIONS):
                value = {
                    "second": self._start_at_ns // 1_000_000_000 + int(record["second"]),
                    "direction": DIRECTIONS[record["direction"]],
                    "wire_bytes": int(record["counts"][IP_BYTES]),
                }
                self._send(self._parts.topics.link, int(record["vehicle"]), value)

    def _send(self, topic: str, vehicle: int, value: dict[str, Any]) -> None:
        if self._producer is None:
            return
        name = vehicle_id(vehicle)
        body = json.dumps({"vehicle_id": name, "at_ns": time.time_ns(), **value}, separators=(",", ":"))
        try:
            self._producer.produce(topic, key=name, value=body)
        except BufferError:
            # Kafka is away: the live figures lose a second, the logs on disk nothing.
            self._producer.poll(0)
