"""Runs in which everything may be missing, doubled or on a border, and what the audit says of them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.audit import figures
from ivsim.audit.due import Key
from ivsim.audit.kafka_records import Kafka, held
from ivsim.audit.ledger import Consumed, Ledger, first_taken
from ivsim.audit.result import Terms
from ledger.config import Topology
from ledger.metrics import METRICS
from ledger.sources import KAFKA_RECORD
from schemas.topics import vehicle_id
from tests.ivsim.audit.whole import kafka_figures, link_figures, message_figures
from tests.twin.made_up import CONNECTION_TYPES, EMISSION_TYPES, RECEIVED_TYPES

MS = 1_000_000
SECOND = 1_000 * MS
START = 1_700_000_000 * SECOND
TIMEOUT_S = 2.0
KEPT = ("format", "protocol", "mode", "epoch", "sequence", "sampled_at_ns", "received_at_ns", "messages")
TOPICS = ("vehicle.status", "twin.state")
# What the audit calls the end of a message's way.
ENDS = {"gateway": "twin", "edge": "twin", "ingest": "consumer", "echo": "receiver", "peer": "peer"}
BRIDGED = ("gateway", "edge")
ODD = (
    None, b"", b"5", b"+5", b"-5", b" 5 ", b"5.0", b"5\n", b"\n5", b"5_0", b"0x5", b"1e3", b"0005", b"abc", b"\xff\xfe",
    b"9223372036854775807", b"9223372036854775808", b"9007199254740993", b"0", b"\xef\xbc\x95", b"5" * 65, b"\t5",
)  # fmt: skip
ODD_KEYS = (None, b"", b"no name", b"YV2RT40A8KB000001\n", b"x" * 33, b"\xff\xfe")
RECORD_TYPES = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()), ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)  # fmt: skip


class Adversary:
    """A run in which stamps are missing, equal, backwards or on a border, and records doubled, reordered or broken."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.emissions: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.warmup_s = random.choice((0.0, 0.5, 2.0))
        self.seconds = 6
        self.peer = random.choice(("broker", "gateway"))
        self.stop_at_ns = random.choice((None, START + 5 * SECOND, START + 9 * SECOND))
        for vehicle in range(1, 5):
            for epoch in (1, 2):
                for sequence in range(1, 13):
                    self._message(vehicle, epoch, sequence)
            self._twin(vehicle)
        self._strangers()
        random.shuffle(self.received)
        random.shuffle(self.records)
        for offset, record in enumerate(self.records):
            record |= {"partition": random.randrange(2), "offset": offset}
        self.left = [row for row in self.received if random.random() < 0.2]
        self._platform(Random(len(self.records)))

    def _platform(self, random: Random) -> None:
        """Let a platform confirm some of the messages, some of them twice, and a consumer have others; and a stranger."""
        self.confirmed: list[dict[str, Any]] = []
        self.consumed: list[dict[str, Any]] = []
        self.whole = random.random() < 0.8
        for row in self.emissions:
            name = {column: row[column] for column in ("vehicle_id", "epoch", "sequence")}
            for noted in (self.confirmed, self.consumed):
                for _ in range(random.choice((0, 0, 1, 1, 1, 3))):
                    noted.append(
                        name | {"received_at_ns": row["due_at_ns"] + random.randrange(-SECOND, 4 * SECOND)}
                    )
        self.consumed.append(
            {"vehicle_id": vehicle_id(9), "epoch": 7, "sequence": 3, "received_at_ns": START}
        )
        random.shuffle(self.consumed)

    def _stamp(self, around_ns: int) -> int:
        """Return a stamp about then: mostly a little later, at times earlier (the clock was set) or on a border."""
        moved = self.random.choice(
            (0, 1, self.random.randrange(SECOND), -self.random.randrange(SECOND), SECOND)
        )
        return around_ns + moved

    def _message(self, vehicle: int, epoch: int, sequence: int) -> None:
        random = self.random
        bounds = (START + round(self.warmup_s * SECOND), START + self.seconds * SECOND, START + 3 * SECOND)
        due = random.choice((*bounds, *(at - 1 for at in bounds), START + random.randrange(8 * SECOND)))
        emitted = None if random.random() < 0.15 else self._stamp(due)
        row = {
            "vehicle_id": vehicle_id(vehicle), "epoch": epoch, "sequence": sequence, "sampled_at_ns": due,
            "due_at_ns": due, "emitted_at_ns": emitted,
            "acknowledged_at_ns": None if random.random() < 0.5 else self._stamp(due),
            "refused_at_ns": None, "refused_reason": None, "refused_by": None, "unanswered_at_ns": None,
            "received_at_ns": None, "payload_bytes": None if emitted is None else random.randrange(60, 400),
            "unsent_reason": None if emitted is not None else "sender_ended", "buffered": random.random() < 0.2,
            "reached_cloud_at_ns": self._stamp(due) if random.random() < 0.1 else None,
            "held_back": True if random.random() < 0.3 else None,
        }  # fmt: skip
        if random.random() < 0.15:
            row |= {"refused_at_ns": self._stamp(due), "refused_reason": "5.03", "refused_by": self.peer}
        self.emissions.append(row)
        timeout = round(TIMEOUT_S * 1e9)
        received = random.choice(
            (self._stamp(due), due + timeout, (emitted or due) + timeout, (emitted or due) + timeout + 1)
        )
        name = {column: row[column] for column in ("vehicle_id", "epoch", "sequence")}
        if random.random() < 0.2:
            return  # nobody behind the vehicle has ever seen it
        for _ in range(random.choice((0, 1, 1, 2))):
            self.received.append(name | {"received_at_ns": self._stamp(received)})
        for _ in range(random.choice((0, 1, 1, 1, 3))):
            headers = {
                "format": b"protobuf", "protocol": b"mqtt", "mode": b"qos1", "epoch": b"%d" % epoch,
                "sequence": b"%d" % sequence, "sampled_at_ns": b"%d" % due, "received_at_ns": b"%d" % received,
            }  # fmt: skip
            self._append("vehicle.status", vehicle_id(vehicle).encode(), received, headers)

    def _append(self, topic: str, key: bytes | None, about_ns: int, headers: dict[str, bytes | None]) -> None:
        random = self.random
        value: bytes | None = b"." * random.randrange(9) + (key or b"") + b"."
        if topic == "vehicle.status" and random.random() < 0.15:
            broken = random.choice((*headers, "key", "value"))
            if broken == "key":
                key = random.choice(ODD_KEYS)
            elif broken == "value":
                value = random.choice((None, b"", b"other", b"." * 1_048_577))
            else:
                headers = headers | {broken: random.choice(ODD)}
        listed = [{"key": name, "value": text} for name, text in headers.items() if text is not None]
        if random.random() < 0.1 and listed:
            listed.insert(0, listed[-1] | {"value": b"1"})  # of two with one name the last counts
        stamp_ms = max(1, self._stamp(about_ns) // MS)
        record = {"topic": topic, "key": key, "value": value, "headers": listed, "timestamp_ms": stamp_ms}
        self.records.append(record)

    def _twin(self, vehicle: int) -> None:
        """Add a twin that stops early, goes backwards after a restart, and at times contains nothing."""
        for _ in range(self.random.choice((0, 3, 12))):
            epoch, sequence = self.random.randint(1, 2), self.random.randint(1, 14)
            headers = {"epoch": b"%d" % epoch, "sequence": b"%d" % sequence, "messages": b"3"}
            self._append(
                "twin.state", vehicle_id(vehicle).encode(), START + self.random.randrange(9) * SECOND, headers
            )

    def _strangers(self) -> None:
        headers = {
            "format": b"small", "protocol": b"coap", "mode": b"con", "epoch": b"7", "sequence": b"3",
            "received_at_ns": b"%d" % START,
        }  # fmt: skip
        for _ in range(3):
            self._append("vehicle.status", vehicle_id(9).encode(), START, headers)

    def write(self, directory: Path) -> None:
        """Write what a run's directory has of it."""
        pq.write_table(pa.Table.from_pylist(self.emissions, EMISSION_TYPES), directory / "emissions.parquet")
        pq.write_table(pa.Table.from_pylist(self.received, RECEIVED_TYPES), directory / "received.parquet")
        left = pa.Table.from_pylist(self.left, RECEIVED_TYPES)
        pq.write_table(
            left.rename_columns([*left.column_names[:-1], "noted_at_ns"]), directory / "in_flight.parquet"
        )
        for name, rows in (("confirmed", self.confirmed), ("consumed", self.consumed)):
            noted = pa.Table.from_pylist(rows, RECEIVED_TYPES)
            noted = noted.rename_columns([*noted.column_names[:-1], f"{name}_at_ns"])
            whole = {b"complete": str(self.whole).lower().encode()}
            pq.write_table(noted.replace_schema_metadata(whole), directory / f"{name}.parquet")
        pq.write_table(
            pa.Table.from_pylist(self.connections(), CONNECTION_TYPES), directory / "connections.parquet"
        )
        pq.write_table(pa.Table.from_pylist(self.link()), directory / "link.parquet")
        run = {"start_at_ns": START, "warmup_s": self.warmup_s, "end_at_ns": START + self.seconds * SECOND,
               "stop_at_ns": self.stop_at_ns, "backlog_max": 3}  # fmt: skip
        (directory / "run.json").write_text(json.dumps(run))
        (directory / "clock.json").write_text('{"clock_drift_ms": -0.25}')
        pq.write_table(pa.Table.from_pylist(self.kept(), KAFKA_RECORD), directory / "kafka_records.parquet")

    def write_topics(self, directory: Path) -> None:
        """Write the topics as Spark's Kafka source gives them."""
        for topic in TOPICS:
            rows = [
                {name: record[name] for name in RECORD_TYPES.names if name != "timestamp"}
                | {"timestamp": record["timestamp_ms"] * 1_000}
                for record in self.records
                if record["topic"] == topic
            ]
            pq.write_table(pa.Table.from_pylist(rows, RECORD_TYPES), directory / f"{topic}.records")

    def connections(self) -> list[dict[str, Any]]:
        steps = ("connected", "disconnected", "connect_failed", "connecting", "connect_due")
        return [
            {"vehicle_id": vehicle_id(1), "event": self.random.choice(steps),
             "at_ns": START + self.random.randrange(10**9), "backlog": 0,
             "handshake_ns": self.random.choice((None, self.random.randrange(10**9))),
             "session_present": self.random.choice((None, True, False))}
            for _ in range(self.random.randrange(12))
        ]  # fmt: skip

    def link(self) -> list[dict[str, Any]]:
        random = self.random
        gap = random.choice((0.0, 0.2, 1.0))

        def known(value: float) -> float | None:
            return None if random.random() < gap else value

        return [
            {"second": second, "vehicle_id": vehicle_id(vehicle), "direction": way,
             "asked_rate_bps": known(random.uniform(1e4, 5e7)), "asked_delay_ms": known(random.uniform(0, 80)),
             "asked_loss_ratio": known(random.choice((0.0, 0.5, 1e-9, 2.5e-9, random.random()))),
             "wire_bytes": known(random.randrange(5_000)), "probe_bytes": known(random.randrange(60)),
             "qdisc_bytes": known(random.randrange(5_000)), "qdisc_packets": known(random.randrange(20)),
             "drops": known(random.randrange(3)), "probe_delay_ms": known(random.uniform(0, 80))}
            for second in range(-1, 7) for vehicle in range(1, 5) for way in ("uplink", "downlink")
        ]  # fmt: skip

    def kept(self) -> list[dict[str, Any]]:
        """Return the records as a run keeps them in kafka_records.parquet."""
        rows = []
        for record in self.records:
            key, value = record["key"], record["value"]
            headers = {header["key"]: header["value"] for header in record["headers"]}
            rows.append(
                {"topic": record["topic"], "partition": record["partition"], "offset": record["offset"],
                 "appended_at_ns": record["timestamp_ms"] * MS, "key": key,
                 "value_bytes": None if value is None else len(value),
                 "value_has_key": None if value is None or key is None else key in value,
                 **{f"header_{name}": headers.get(name) for name in KEPT}}
            )  # fmt: skip
        return rows


def of_platform(run: Adversary) -> Consumed:
    """Return what a platform confirmed and its consumer had, by the audit."""

    def key(row: dict[str, Any]) -> Key:
        return Key(row["vehicle_id"], row["epoch"], row["sequence"])

    stamps: dict[Key, list[int]] = defaultdict(list)
    for row in run.consumed:
        stamps[key(row)].append(row["received_at_ns"])
    return Consumed(
        first_taken((key(row), row["received_at_ns"]) for row in run.confirmed),
        {name: (min(at), len(at)) for name, at in stamps.items()},
        run.whole,
    )


def audited(
    run: Adversary, directory: Path, *, topology: Topology
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the ledger's rows and the figures by the audit."""
    terms = Terms(
        end=ENDS[topology], start_at_ns=START, vehicles=4, seed=0, interval_ns=SECOND, duration_ns=run.seconds * SECOND,
        loss_timeout_ns=round(TIMEOUT_S * 1e9), future_tolerance_ns=5 * SECOND, warmup_s=run.warmup_s,
        edge=topology == "edge",
    )  # fmt: skip
    ends = [START + run.seconds * SECOND]
    if run.stop_at_ns is not None:
        ends.append(run.stop_at_ns - terms.loss_timeout_ns)
    window = START + round(run.warmup_s * 1e9), min(ends)
    bridged = topology in BRIDGED
    kafka = Kafka() if not bridged else held(run.kept(), terms.future_tolerance_ns)
    names = [(Key(r["vehicle_id"], r["epoch"], r["sequence"]), r["received_at_ns"]) for r in run.received]
    left = {Key(row["vehicle_id"], row["epoch"], row["sequence"]) for row in run.left} if bridged else set()
    taken = first_taken(names) if bridged or topology == "ingest" else {}
    platform = of_platform(run) if topology == "ingest" else None
    rows = Ledger(taken, kafka, terms, window, run.stop_at_ns, left, platform).rows(run.emissions)
    counted = bridged or (platform is not None and platform.whole)
    found = {
        **message_figures(rows, window, kafka=counted),
        **kafka_figures(rows, kafka, ENDS[topology], platform),
        **figures.connection_figures(pq.read_table(directory / "connections.parquet").to_pylist(), 3),
        **link_figures(
            pq.read_table(directory / "link.parquet").to_pylist(),
            run.warmup_s,
            rows,
            window[0],
            2 if topology == "echo" else 1,
        ),
        **figures.window_figures(window, START),
        "clock_drift_ms": -0.25,
    }
    return rows, found


def differences(run: Adversary, directory: Path, said: dict[str, Any], *, topology: Topology) -> list[str]:
    """Return what a ledger and its figures, as they were written there, and the audit say differently of a run."""
    whole = run.whole or topology != "ingest"
    assert said["partial"] is not whole, said["partial_reason"]
    rows, found = audited(run, directory, topology=topology)
    wrong = [
        f"{name}: {said[name]!r} and {found.get(name, 'unknown')!r}"
        for name in METRICS
        if said[name] != found.get(name, "unknown")
    ]
    table = pq.read_table(directory / "ledger.parquet")
    by_key = {(row["vehicle_id"], row["epoch"], row["sequence"]): row for row in rows}
    for row in table.to_pylist():
        other = by_key.pop((row["vehicle_id"], row["epoch"], row["sequence"]))
        wrong += [f"{row} {name}: {other[name]}" for name in row if row[name] != other[name]]
    return wrong + [f"no row: {key}" for key in by_key]
