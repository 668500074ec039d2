"""What a run says of its security, out of a capture's tables made here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.options import RunOptions
from ivsim.report.page import write_page
from ivsim.runs.security_figures import security_figures
from ivsim.study.engines.whole_run.security_metrics import SECURITY_METRICS, security_metrics

SENDER = {"access_refused": 2, "cpu_s": 0.5}
GATEWAYS = [{"cpu_s": 0.25}, {"cpu_s": 0.75}]


def write(directory: Path) -> None:
    begun = [1_000_000_000, 2_000_000_000, 3_000_000_000]
    ended = [1_040_000_000, 2_010_000_000, 3_020_000_000]
    columns = {
        "vehicle_id": ["a", "a", "b"],
        "begun_at_ns": begun,
        "ended_at_ns": ended,
        "resumed": [False, True, False],
        "record_bytes": [1_500, 600, 1_700],
    }
    pq.write_table(pa.table(columns), directory / "wire_handshakes.parquet")
    rows = [
        ("before_start", "handshake", "uplink", "protocol", 700),
        ("run", "handshake", "uplink", "transport", 60),
        ("run", "handshake", "downlink", "protocol", 900),
        ("run", "secured", "uplink", "protocol", 44),
        ("run", "secured", "uplink", "opaque", 5_000),
        ("run", "message", "uplink", "protocol", 9),
    ]
    names = ("phase", "purpose", "direction", "layer", "bytes")
    table = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    pq.write_table(pa.table(table), directory / "wire_categories.parquet")


def page_of(directory: Path, figures: dict[str, Any]) -> str:
    made = {"run": "r1", "options": RunOptions().model_dump(mode="json"), "link": {"name": "uml"}}
    (directory / "manifest.json").write_text(json.dumps(made))
    (directory / "metrics.json").write_text(json.dumps({"security": figures}))
    return write_page(directory).read_text()


def test_figures_and_metrics_of_a_capture(tmp_path: Path) -> None:
    write(tmp_path)
    figures = security_figures(tmp_path, security="mtls", senders=[SENDER], gateways=GATEWAYS)
    assert figures == {
        "security": "mtls",
        "access_refused": 2,
        "sender_cpu_s": 0.5,
        "gateway_cpu_s": 1.0,
        "handshakes_full": 2,
        "handshakes_resumed": 1,
        "handshake_p50_ms": 20.0,
        "handshake_p99_ms": 40.0,
        "full_handshake_p50_ms": 20.0,
        "full_handshake_bytes_mean": 1_600.0,
        "resumed_handshake_p50_ms": 10.0,
        "resumed_handshake_bytes_mean": 600.0,
        "handshake_bytes_uplink": 760,
        "handshake_bytes_downlink": 900,
        "record_bytes_uplink": 44,
        "record_bytes_downlink": 0,
    }
    metrics = security_metrics({"security": figures, "run_due": 10})
    assert set(metrics) == set(SECURITY_METRICS)
    assert metrics["handshake_bytes_mean"] == 1660 / 3
    assert metrics["resumed_handshake_bytes_mean"] == 600.0
    assert metrics["record_bytes_per_message"] == 4.4
    assert metrics["sender_cpu_us_per_due"] == 50_000
    assert metrics["gateway_cpu_us_per_due"] == 100_000
    page = page_of(tmp_path, figures)
    assert "What mtls cost" in page
    assert re.search(r"<td>resumed handshakes</td><td[^>]*>1</td>", page)


def test_of_a_sample_times_are_known_and_counts_and_bytes_are_not(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "wire_handshakes.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({b"attributed_ends": b"[1, 2]"}), path)
    figures = security_figures(tmp_path, security="mtls", senders=[SENDER], gateways=GATEWAYS)
    known = {name: value for name, value in figures.items() if value is not None}
    assert set(known) == {
        "security", "access_refused", "sender_cpu_s", "gateway_cpu_s", "handshake_p50_ms", "handshake_p99_ms",
        "full_handshake_p50_ms", "full_handshake_bytes_mean", "resumed_handshake_p50_ms", "resumed_handshake_bytes_mean",
    }  # fmt: skip
    assert known["handshake_p50_ms"] == 20.0


def test_what_was_not_measured_is_not_there(tmp_path: Path) -> None:
    figures = security_figures(tmp_path, security="tls", senders=[{}], gateways=[{"cpu_s": 1.0}, {}])
    assert set(figures.values()) == {"tls", None}
    assert set(security_metrics({"security": figures, "run_due": 10}).values()) == {None}
    assert set(security_metrics({}).values()) == {None}
    plain = security_figures(tmp_path, security="plain", senders=[{}], gateways=[])
    assert "What plain cost" not in page_of(tmp_path, plain)


def test_a_run_without_handshakes_has_none(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "wire_handshakes.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    figures = security_figures(tmp_path, security="oscore", senders=[SENDER], gateways=GATEWAYS)
    assert (figures["handshakes_full"], figures["handshakes_resumed"]) == (0, 0)
    assert figures["handshake_p50_ms"] is figures["resumed_handshake_bytes_mean"] is None
    assert security_metrics({"security": figures, "run_due": 10})["handshake_bytes_mean"] is None
