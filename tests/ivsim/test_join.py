"""Results of a fleet's shares, joined: the result that one run of the whole fleet would have left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.audit import audit
from ivsim.library.join import _OWN, join
from ivsim.library.report_anew import built_ledger
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import SCHEMA, RunDirectory, make_run_directory
from ivsim.runs.processes import scenario_of
from ivsim.runs.result import ledger_config, write_result
from ivsim.runs.snapshot import Facts, write_snapshot
from schemas.errors import Refusal
from schemas.json_files import read_json, write_json
from schemas.topics import vehicle_id
from simulator.capture.byte_totals import ByteTotals
from simulator.capture.counting import COUNTS, RECORD
from simulator.capture.second_log import SecondLog, to_table
from simulator.capture.tables import handshakes_table, messages_table
from simulator.emission_log import EmissionLog, Kind
from simulator.fleet import schedule

START_NS = 1_796_000_000_000_000_000
START_AT = "2026-11-30T09:20:00Z"
ASKED: dict[str, Any] = {
    "protocol": "mqtt", "target": "mqtt://192.0.2.9", "topology": "peer", "link": "direct",
    "vehicles": 7, "interval_s": 1.0, "duration_s": 4.0, "loss_timeout_s": 5.0,
}  # fmt: skip


def result(
    path: Path,
    told: dict[str, Any] | None = None,
    begun_ns: int = START_NS,
    until_ns: int | None = None,
    **options: Any,
) -> Path:
    """Leave the result of a run that sent each message 2 ms late, and had it acknowledged 7 ms later; or was stopped."""
    asked = run_options(**ASKED | options)
    run = make_run_directory(path, "made-up")
    log = EmissionLog(run.emission_log())
    vehicles = sorted(vehicle for part in asked.parts for vehicle in part.vehicles)
    for due in schedule(scenario_of(asked), vehicles):
        at_ns = begun_ns + due.due_offset_ns + 2_000_000
        if until_ns is not None and at_ns > until_ns:
            break
        log.note(Kind.EMITTED, due.vehicle, at_ns, epoch=due.epoch, sequence=due.sequence, size=100)
        log.note(Kind.ACKNOWLEDGED, due.vehicle, at_ns + 7_000_000, epoch=due.epoch, sequence=due.sequence)
    log.close()
    return written(run, asked, begun_ns, until_ns, told or {})


def written(
    run: RunDirectory, asked: RunOptions, begun_ns: int, until_ns: int | None, told: dict[str, Any]
) -> Path:
    manifest = {
        "schema": SCHEMA, "run": run.path.name, "options": asked.model_dump(), "start_at_ns": begun_ns, "seed": asked.seed,
        "link": {"name": "direct"}, "machine": {}, "versions": {}, "trace_offsets_s": [], "warnings": [], "notes": [],
    }  # fmt: skip
    write_json(run.manifest, manifest)
    facts = Facts(begun_ns, until_ns, **{"clock_drift_ms": 0.1, "senders": [{"cpu_s": 1.0}]} | told)
    write_snapshot(run, asked, (), facts)
    write_result(run, built_ledger(ledger_config(run.path, asked), lambda _: None))
    run.work.rmdir()
    write_checksums(run)
    return run.path


def rows(directory: Path) -> list[dict[str, Any]]:
    found = pq.read_table(directory / "ledger.parquet").to_pylist()
    return sorted(found, key=lambda row: (row["vehicle_id"], row["sequence"]))


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("shares")
    return [result(base / f"share-{number}", share=f"{number}/3", start_at=START_AT) for number in (1, 2, 3)]


def test_the_shares_of_a_fleet_are_the_fleet_message_for_message(shares: list[Path], tmp_path: Path) -> None:
    whole = result(tmp_path / "whole")
    joined = join([shares[2], shares[0], shares[1]], tmp_path / "joined").path
    assert rows(joined) == rows(whole)
    figures, expected = read_json(joined / "metrics.json"), read_json(whole / "metrics.json")
    own = {"run", "shares", "security"}
    assert {name: figures[name] for name in figures if name not in own} == {
        name: expected[name] for name in expected if name not in own
    }
    assert [share["vehicles"] for share in figures["shares"]] == [3, 2, 2]
    assert audit(joined).agrees


def test_a_vehicles_bytes_are_those_that_its_own_share_saw(tmp_path: Path) -> None:
    """The link of a share probes vehicles that it does not send for."""
    made = []
    for number in (1, 2):
        path = result(tmp_path / f"share-{number}", share=f"{number}/2", start_at=START_AT)
        captured(path, own=range(number, 8, 2))
        made.append(path)
    joined = join(made, tmp_path / "joined").path
    bytes_of = {
        row["vehicle_id"]: row["ip_bytes"] for row in pq.read_table(joined / "wire.parquet").to_pylist()
    }
    assert bytes_of == {vehicle_id(number): 1_000 + number for number in range(1, 8)}
    purposes = pq.read_table(joined / "wire_categories.parquet")
    assert sorted(purposes["bytes"].to_pylist()) == list(range(1_001, 1_008))
    assert purposes.schema.metadata == {b"kernel_drops": b"6", b"complete": b"false"}
    assert read_json(joined / "metrics.json")["validity"]["verdict"] == "invalid"  # frames were missed


def captured(directory: Path, own: range) -> None:
    """Leave what a capture would: 1,000 bytes and its number of each vehicle's, 64 of a probe of each other's."""
    sizes = {number: 1_000 + number if number in own else 64 for number in range(1, 8)}
    records = np.zeros(len(sizes), RECORD)
    records["vehicle"], records["counts"][:, COUNTS.index("ip_bytes")] = list(sizes), list(sizes.values())
    with SecondLog(directory / "wire.events") as log:
        log.append(records)
    told = {b"kernel_drops": b"3", b"complete": b"false"}
    names = pa.array([vehicle_id(number) for number in sizes])
    rows = pa.table({"vehicle_id": names, "bytes": pa.array(list(sizes.values()))})
    for name, table in (("messages", messages_table), ("handshakes", handshakes_table)):
        pq.write_table(table(ByteTotals()).replace_schema_metadata(told), directory / f"wire_{name}.parquet")
    kinds = {"phase": "run", "direction": "uplink", "purpose": "message", "layer": "payload"}
    for column, value in kinds.items():
        rows = rows.append_column(column, pa.array([value] * len(rows)))
    pq.write_table(rows.replace_schema_metadata(told), directory / "wire_categories.parquet")
    pq.write_table(
        to_table(directory / "wire.events").replace_schema_metadata(told), directory / "wire.parquet"
    )
    write_checksums(RunDirectory(directory))


def test_a_share_that_is_missing_leaves_its_messages_unknown(shares: list[Path], tmp_path: Path) -> None:
    joined = join([shares[0], shares[2]], tmp_path / "joined").path
    figures = read_json(joined / "metrics.json")
    assert (figures["due"], figures["delivered"], figures["unknown"], figures["lost"], figures["unsent"]) == (
        28,
        20,
        8,
        0,
        0,
    )
    assert figures["partial_reason"] == "the result of share 2/3 is missing"
    assert figures["validity"]["verdict"] == "invalid"
    assert {row["unsent_reason"] for row in rows(joined) if row["fate"] == "unknown"} == {"share_missing"}
    assert audit(joined).agrees


def test_a_share_that_was_stopped_leaves_the_others_messages_as_they_are(
    shares: list[Path], tmp_path: Path
) -> None:
    """What it had not sent is unsent, and was due in the fleet: the others went on."""
    until_ns = START_NS + 2_000_000_000
    told = {
        "problems": ["stopped by SIGINT"],
        "clock_drift_ms": None,
    }  # finished behind a kill: nobody knew the drift
    stopped = result(tmp_path / "stopped", told, until_ns=until_ns, share="2/3", start_at=START_AT)
    joined = join([shares[0], stopped, shares[2]], tmp_path / "joined").path
    figures = read_json(joined / "metrics.json")
    sent = sum(row["fate"] == "delivered" for row in rows(stopped))
    assert (figures["run_due"], figures["delivered"], figures["unsent"]) == (28, 20 + sent, 8 - sent)
    assert 0 < sent < 8
    assert {row["unsent_reason"] for row in rows(joined) if row["fate"] == "unsent"} == {"sender_ended"}
    assert figures["partial_reason"] == "share 2/3: stopped by SIGINT"
    assert figures["clock_drift_ms"] is None
    assert audit(joined).agrees


def test_machines_may_differ_in_what_is_a_machines_own(shares: list[Path], tmp_path: Path) -> None:
    """Each reaches the target by an address of its own, and writes the one instant in its own zone."""
    elsewhere = {
        "target": "mqtt://198.51.100.7",
        "start_at": "2026-11-30T10:20:00+01:00",
        "metrics_port": 9_464,
        "share_results": "s3a://ivsim/load",
        "s3_endpoint": "https://store.example",
    }
    other = result(tmp_path / "other", share="2/3", **elsewhere)
    assert read_json(join([shares[0], other, shares[2]], tmp_path / "joined").metrics)["delivered"] == 28
    assert set(RunOptions.model_fields) >= _OWN


def test_a_directory_that_was_there_stays_when_nothing_can_be_joined(
    shares: list[Path], tmp_path: Path
) -> None:
    (there := tmp_path / "there").mkdir()
    stranger = shutil.copytree(shares[1], tmp_path / "stranger")
    log = next(stranger.glob("emissions*.events"))
    log.write_bytes(log.read_bytes() + next(shares[0].glob("emissions*.events")).read_bytes())
    write_checksums(RunDirectory(stranger))
    with pytest.raises(Refusal, match=r"sent for vehicle 1, which is not of --share 2/3"):
        join([shares[0], stranger], there)
    assert list(there.iterdir()) == []


def test_what_a_share_was_worth_by_itself_is_the_fleets(shares: list[Path], tmp_path: Path) -> None:
    told = {"refused_gateways": ["gateway-0 was refused 2 times"]}
    worse = result(tmp_path / "worse", told=told, share="2/3", start_at=START_AT)
    figures = read_json(join([shares[0], worse, shares[2]], tmp_path / "joined").metrics)
    assert figures["validity"] == {
        "verdict": "degraded",
        "causes": [
            {
                "name": "share_not_valid",
                "severity": "degraded",
                "words": "share 2/3 is degraded: gateway-0 was refused 2 times",
            }
        ],
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"share": "1/3"}, "--share 1/3: so is "),
        ({"share": "2/4"}, "--share 2/4: "),
        ({"share": "2/3", "seed": 9}, "--seed 9: "),
        ({"share": "2/3", "vehicles": 8}, "--vehicles 8: "),
        ({"share": "2/3", "begun_ns": START_NS + 1}, "began at another time than "),
    ],
)
def test_what_is_no_share_of_one_fleet_is_refused(
    options: dict[str, Any], says: str, shares: list[Path], tmp_path: Path
) -> None:
    other = result(tmp_path / "other", start_at=START_AT, **options)
    with pytest.raises(Refusal, match=says):
        join([shares[0], other], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_the_result_of_a_whole_fleet_is_no_share(shares: list[Path], tmp_path: Path) -> None:
    with pytest.raises(
        Refusal, match=r"whole: the result of a whole fleet: those of runs with --share are joined"
    ):
        join([shares[0], result(tmp_path / "whole")], tmp_path / "joined")


def test_a_file_that_was_changed_is_refused(shares: list[Path], tmp_path: Path) -> None:
    changed = shutil.copytree(shares[1], tmp_path / "changed")
    run = json.loads((changed / "run.json").read_text())
    (changed / "run.json").write_text(json.dumps(run | {"stop_at_ns": 1}))
    with pytest.raises(Refusal, match=r"run\.json: changed since the run wrote it"):
        join([shares[0], changed, shares[2]], tmp_path / "joined")
