"""Copies what the yardsticks have counted so far to `run.emissions` and `run.link`, for live figures only.

The logs themselves stay where they are: the ledger reads them from disk, never from Kafka.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import orjson
from confluent_kafka import Producer

from ivsim.runs.directory import RunDirectory
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.live_reader import LiveReader
from schemas.topics import end_id
from simulator.capture.counting import COUNTS
from simulator.capture.counting import RECORD as WIRE_RECORD
from simulator.capture.fields import DIRECTIONS
from simulator.capture.second_log import MAGIC
from simulator.emission_log import Kind
from simulator.emission_table import EVENT
from simulator.links.base import Condition, Conditions

PERIOD_S = 1.0
FLUSH_S = 5.0
# Of a record at most: 230 kB with long numbers, of the 1 MB that Kafka takes.
ROWS = 1_000
CORES = "cores_"
TOLD = {"emitted": Kind.EMITTED, "unsent": Kind.UNSENT, "refused": Kind.REFUSED}
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


def counts_by_second(events: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return vehicle, second (since 1970) and the count of each kind in `TOLD`, a row for each vehicle and second that has any."""
    told = events[np.isin(events["kind"], list(TOLD.values()))]
    places = np.column_stack((told["vehicle"].astype(np.int64), told["at_ns"] // 1_000_000_000))
    rows, row_of = np.unique(places, axis=0, return_inverse=True)
    counts = [np.bincount(row_of[told["kind"] == kind], minlength=len(rows)) for kind in TOLD.values()]
    return np.column_stack((rows, *counts))


class LivePublisher:
    """A thread that follows both logs while the run goes, and keeps the totals for the display.

    Args:
        directory: of the run.
        shards: how many senders have an emission log there.
        kafka: where the run's topics are.
        live_reader: what the twins say meanwhile.
        start_at_ns: when second 0 begins.
        conditions: returns the second in force and what each link is asked in it; None where nobody looks at them.
        captured: whether the run has a capture; without, nobody counts its bytes.
    """

    def __init__(
        self,
        directory: RunDirectory,
        shards: int,
        kafka: KafkaAddress,
        live_reader: LiveReader | None,
        start_at_ns: int,
        *,
        conditions: Callable[[], tuple[int, Conditions]] | None = None,
        captured: bool = True,
    ) -> None:
        self._conditions = conditions
        self._told: dict[int, tuple[Condition, Condition]] = {}
        self._topics, self._live_reader, self._start_at_ns = kafka.topics, live_reader, start_at_ns
        self._emissions = [Tail(directory.emission_log(shard, shards), EVENT) for shard in range(shards)]
        self._wire = Tail(directory.path / "wire.events", WIRE_RECORD, len(MAGIC))
        self._producer: Producer | None = None
        if kafka.bootstrap:
            self._producer = Producer({**kafka.client_settings(), "linger.ms": 50, "log_level": 2})
        self._totals: Counter[str] = Counter(ip_bytes=0) if captured else Counter()
        self._shard_totals: list[Counter[str]] = [Counter() for _ in range(shards)]
        self._last_emitted_at_ns = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="publisher", daemon=True)

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
        reader = self._live_reader
        live = {} if reader is None else reader.live()
        given_up = 0 if reader is None else reader.given_up()
        contained = totals.get("received") if reader is None else reader.contained()
        return {
            # The logs are read once a second, and the twins meanwhile: what they contain was emitted.
            "emitted": max(totals.get("emitted", 0), contained or 0),
            "acknowledged": totals.get("acknowledged", 0),
            "in twin": contained,
            **({"given up": given_up} if given_up else {}),
            "unsent": totals.get("unsent", 0),
            "wire kB": round(totals["ip_bytes"] / 1000, 1) if "ip_bytes" in totals else None,
            "p50 ms": live.get("end_to_end_latency_p50_ms"),
            "p99 ms": live.get("end_to_end_latency_p99_ms"),
        }

    def totals(self) -> dict[str, int]:
        """Return emitted, acknowledged, unsent, received and refused messages so far."""
        with self._lock:
            return dict(self._totals)

    def shard_totals(self) -> list[dict[str, int]]:
        """Return what each sender has done so far."""
        with self._lock:
            return [dict(totals) for totals in self._shard_totals]

    def last_emitted_at_ns(self) -> int:
        """Return when the last message so far was emitted; 0 before the first."""
        with self._lock:
            return self._last_emitted_at_ns

    def _follow(self) -> None:
        while not self._closing.wait(PERIOD_S):
            self._copy()

    def _copy(self) -> None:
        for totals, tail in zip(self._shard_totals, self._emissions, strict=True):
            self._copy_emissions(tail.read(), totals)
        self._copy_wire(self._wire.read())
        self._copy_conditions()
        if self._producer is not None:
            self._producer.poll(0)

    def _copy_emissions(self, events: npt.NDArray[Any], totals: Counter[str]) -> None:
        with self._lock:
            for kind in Kind:
                count = int((events["kind"] == kind).sum())
                totals[kind.name.lower()] += count
                self._totals[kind.name.lower()] += count
            emitted = events["at_ns"][events["kind"] == Kind.EMITTED]
            self._last_emitted_at_ns = max(self._last_emitted_at_ns, int(emitted.max(initial=0)))
        self._send(
            self._topics.emissions,
            [
                {"vehicle_id": end_id(vehicle), "second": second, **dict(zip(TOLD, counts, strict=True))}
                for vehicle, second, *counts in counts_by_second(events).tolist()
            ],
        )

    def _copy_wire(self, records: npt.NDArray[Any]) -> None:
        if not len(records):
            return
        with self._lock:
            self._totals["ip_bytes"] += int(records["counts"][:, IP_BYTES].sum())
        told = records[(records["vehicle"] != 0) & (records["direction"] < len(DIRECTIONS))]
        seconds = self._start_at_ns // 1_000_000_000 + told["second"].astype(np.int64)
        sizes = told["counts"][:, IP_BYTES]
        columns = (told["vehicle"], seconds, told["direction"], sizes)
        self._send(
            self._topics.link,
            [
                {
                    "vehicle_id": end_id(vehicle),
                    "second": second,
                    "direction": DIRECTIONS[way],
                    "wire_bytes": size,
                }
                for vehicle, second, way, size in zip(*(column.tolist() for column in columns), strict=True)
            ],
        )

    def _copy_conditions(self) -> None:
        """Say what each link is asked from this second on, of those whose conditions have changed."""
        if self._conditions is None:
            return
        second, asked = self._conditions()
        rows = []
        for vehicle, pair in asked.items():
            # Conditions that are equal are the same objects (simulator/link_schedule.py).
            if self._told.get(vehicle) is pair:
                continue
            self._told[vehicle] = pair
            uplink, downlink = pair
            row = {
                "vehicle_id": end_id(vehicle),
                "second": self._start_at_ns // 1_000_000_000 + second,
                "uplink_rate_bps": uplink.rate_bps,
                "downlink_rate_bps": downlink.rate_bps,
                "rtt_ms": uplink.delay_ms + downlink.delay_ms,
                "uplink_loss_ratio": uplink.mean_loss_ratio,
                "downlink_loss_ratio": downlink.mean_loss_ratio,
            }
            rows.append(row)
        self._send(self._topics.link, rows)

    def tell_sources(self, figures: Mapping[str, Any], cores: Mapping[str, float]) -> None:
        """Say what all senders have done so far, and how many cores each kind of part uses: a record of no vehicle."""
        value = {f"fleet_{name}": figure for name, figure in figures.items()}
        value |= {f"{CORES}{kind}": round(used, 3) for kind, used in cores.items()}
        self._send(self._topics.emissions, [value])

    def _send(self, topic: str, rows: list[dict[str, Any]]) -> None:
        """Send rows by the `ROWS`: a record for each row was 28 % of what the live figures cost the twin process."""
        if self._producer is None:
            return
        try:
            for at in range(0, len(rows), ROWS):
                told = rows[at : at + ROWS]
                self._producer.produce(topic, orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY))
        except BufferError:
            # Kafka is away: the live figures lose a second, the logs on disk nothing.
            self._producer.poll(0)
