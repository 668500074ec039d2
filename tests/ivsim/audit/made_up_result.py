"""A small result directory with everything that an audit reads, made without a run: the topology echo, two vehicles."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.audit import figures, logs, tables
from ivsim.audit.due import due_of
from ivsim.audit.kafka_records import Kafka
from ivsim.audit.ledger import Ledger
from ivsim.audit.result import Terms
from ivsim.report.page import write_page
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import SCHEMA, RunDirectory
from ivsim.runs.link_log import SCHEMA as LINK_SCHEMA
from ivsim.runs.link_log import link_table
from simulator.capture.counting import COUNTS, RECORD
from simulator.capture.second_log import MAGIC
from simulator.capture.second_log import to_table as wire_table
from simulator.emission_log import EmissionLog, Kind
from simulator.emission_table import connections, to_table
from simulator.scenario import Scenario
from tests.ivsim.audit.whole import kafka_figures, link_figures, message_figures, played

SECOND = 1_000_000_000
# Every vehicle is answered by a broker.
BROKERS = defaultdict(lambda: "broker")
START = 1_700_000_000 * SECOND
OPTIONS: dict[str, Any] = {
    "topology": "echo", "protocol": "mqtt", "mode": "qos1", "vehicles": 2, "interval_s": 1.0, "duration_s": 4.0,
    "warmup_s": 1.0, "loss_timeout_s": 0.05, "future_tolerance_s": 5.0, "seed": 3, "pcap": False, "format": "protobuf",
    "link": "direct", "trace": "car-2024", "loss_ratio": 0.0,
}  # fmt: skip


def made_up_result(path: Path) -> Path:
    """Write a result in which messages are delivered, late, lost and unsent; return its directory."""
    shutil.copytree(_made(), path)
    return path


@cache
def _made() -> Path:
    """Make it once in a process, with all its charts."""
    base = Path(tempfile.mkdtemp(prefix="ivsim-made-up-"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    path = base / "run"
    directory = RunDirectory(path)
    path.mkdir()
    manifest: dict[str, Any] = {
        "schema": SCHEMA, "run": "made-up", "options": OPTIONS, "start_at_ns": START, "seed": 3, "link": {"name": "direct"},
        "machine": {}, "versions": {}, "tcp": {}, "trace_offsets_s": {}, "sender": {}, "twin": {}, "warnings": [],
    }  # fmt: skip
    terms = Terms.of(manifest)
    directory.manifest.write_text(json.dumps(manifest))
    _events(directory, terms)
    events = logs.read_events(directory.emission_log())
    scenario = Scenario(vehicles=2, duration_s=4.0, seed=3)
    emissions = to_table(directory.emission_log(), scenario, START)
    for name, kind in (
        ("refused_by", pa.string()),
        ("reached_cloud_at_ns", pa.int64()),
        ("held_back", pa.bool_()),
    ):
        emissions = emissions.append_column(name, pa.nulls(emissions.num_rows, kind))
    pq.write_table(emissions, directory.emissions)
    pq.write_table(connections(directory.emission_log()), path / "connections.parquet")
    (path / "clock.json").write_text('{"clock_drift_ms": 0.5}')
    run = {
        "start_at_ns": START,
        "warmup_s": 1.0,
        "end_at_ns": START + 4 * SECOND,
        "stop_at_ns": None,
        "backlog_max": 0,
    }
    (path / "run.json").write_text(json.dumps(run))
    link = _link(directory)
    _account(directory, terms, events, link)
    write_page(path)
    write_checksums(directory)
    return path


def _events(directory: RunDirectory, terms: Terms) -> None:
    log = EmissionLog(directory.emission_log())
    for vehicle in (1, 2):
        log.note(Kind.CONNECTING, vehicle, START - 90)
        log.note(Kind.CONNECTED, vehicle, START - 50)
    for number, (key, due) in enumerate(due_of(terms).items()):
        vehicle = int(key.vehicle_id[-6:])
        named = {"epoch": key.epoch, "sequence": key.sequence, "size": 100 + number}
        if number == 3:
            log.note(Kind.BUFFERED, vehicle, due, **named)
            log.note(Kind.UNSENT, vehicle, due + 5, reason=1, **named)
            continue
        log.note(Kind.EMITTED, vehicle, due + 1_000 + number, **named)
        if number != 5:
            log.note(
                Kind.RECEIVED, vehicle, due + (80_000_000 if number == 6 else 7_000_123 + number), **named
            )
    log.close()


def _link(directory: RunDirectory) -> list[dict[str, Any]]:
    records = np.zeros(20, RECORD)
    for number, record in enumerate(records):
        record["second"], record["vehicle"], record["direction"] = (
            number // 4 - 1,
            1 + number % 2,
            number // 2 % 2,
        )
        record["counts"][[COUNTS.index("packets"), COUNTS.index("ip_bytes"), COUNTS.index("link_bytes")]] = (
            1,
            86,
            100,
        )
    wire = directory.path / "wire.events"
    wire.write_bytes(MAGIC + records.tobytes())
    metadata = {b"kernel_drops": b"0", b"complete": b"true"}
    pq.write_table(wire_table(wire).replace_schema_metadata(metadata), directory.path / "wire.parquet")
    asked = [
        {"second": s, "vehicle_id": f"YV2RT40A8KB00000{v}", "direction": way, "asked_rate_bps": 1e6, "asked_delay_ms": 10.0,
         "asked_loss_ratio": 0.0, "asked_jitter_ms": 0.0, "asked_reorder_ratio": 0.0, "asked_burst_packets": 1.0,
         "applied_at_ns": START + s * SECOND + 2_345, "update_ms": 0.125, "probe_sent": 1, "probe_received": 1,
         "probe_bytes": 48, "probe_delay_ms": 10.25}
        for s in range(4) for v in (1, 2) for way in ("uplink", "downlink")
    ]  # fmt: skip
    pq.write_table(link_table([pa.Table.from_pylist(asked, schema=LINK_SCHEMA)], wire), directory.link)
    purposes = [
        {"phase": phase, "vehicle_id": f"YV2RT40A8KB00000{v}", "direction": way, "purpose": "message",
         "layer": "payload", "bytes": 100 if phase == "before_start" else 400}
        for phase in ("before_start", "run") for v in (1, 2) for way in ("uplink", "downlink")
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(purposes), directory.path / "wire_categories.parquet")
    return pq.read_table(directory.link).to_pylist()


def _account(
    directory: RunDirectory, terms: Terms, events: list[logs.Event], link: list[dict[str, Any]]
) -> None:
    window = START + SECOND, START + 4 * SECOND
    rows = Ledger({}, Kafka(), terms, window).rows(tables.emission_rows(due_of(terms), events, {}, BROKERS))
    kept = [{name: row[name] for name in row if name not in {"held_back", "refused_by"}} for row in rows]
    pq.write_table(pa.Table.from_pylist(kept), directory.ledger)
    found = message_figures(rows, window, kafka=False) | kafka_figures(rows, Kafka(), "receiver")
    found |= figures.connection_figures(tables.connection_rows(events), 0)
    found |= (
        link_figures(link, 1.0, rows, window[0], 2)
        | figures.window_figures(window, START)
        | {"clock_drift_ms": 0.5}
    )
    replay = played([row for row in link if row["update_ms"] is not None], START).replay()
    parts = {
        "run": "made-up", "partial": False, "partial_reason": None,
        "replay": replay | {"failure": None, "scheduling": "nice 0"},
        "certificate": {"verdict": "unproven", "statement": "", "checks": [], "probe_bytes_uplink": 384,
                        "probe_bytes_downlink": 384},
        "validity": {"verdict": "valid", "causes": []},
    }  # fmt: skip
    directory.metrics.write_text(json.dumps(found | parts))
