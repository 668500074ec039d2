"""A ledger of the files of a run: what is missing in them, and what is wrong with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.__main__ import main
from ledger.build import build
from ledger.config import BUILD, WHEN_TOLD, LedgerConfig
from ledger.metrics import FATES
from schemas.errors import Refusal
from tests.ledger.adversary import TIMEOUT_S, Adversary
from tests.twin.made_up import EMISSION_TYPES


@pytest.fixture
def run(tmp_path: Path) -> LedgerConfig:
    Adversary(Random(1)).write(tmp_path)
    return LedgerConfig(run_dir=str(tmp_path), loss_timeout_s=TIMEOUT_S)


def files(config: LedgerConfig) -> list[str]:
    return sorted(path.name for path in Path(config.run_dir).iterdir())


def test_without_what_kafka_held_no_message_is_called_lost(run: LedgerConfig) -> None:
    whole = build(run)
    run.run_file("kafka_records.parquet").unlink()
    found = build(run)
    assert found["due"] == whole["due"] == sum(found[fate] for fate in FATES)
    assert (found["lost"], found["delivered"]) == (0, 0)
    assert found["unknown"] > whole["unknown"]
    for name in ("delivery_ratio", "duplicates", "twin_updates", "rejected_records", "unknown_records"):
        assert found[name] is None, name
        assert whole[name] is not None, name
    assert (
        found["partial_reason"] == "kafka_records.parquet is missing: nothing is known of Kafka and the twins"
    )


def test_without_a_gateways_log_its_stamps_are_kafkas(run: LedgerConfig) -> None:
    whole = build(run)
    for name in ("received.parquet", "in_flight.parquet"):
        run.run_file(name).unlink()
    found = build(run)
    assert found["partial"] is False
    assert found["run_received"] == whole["run_received"]
    assert found["lost_at_gateway"] == found["lost_at_uplink"] == 0 < whole["lost_at_gateway"]


def test_a_run_in_which_nothing_was_due_has_nulls_and_not_zeros(tmp_path: Path) -> None:
    pq.write_table(EMISSION_TYPES.empty_table(), tmp_path / "emissions.parquet")
    (tmp_path / "run.json").write_text(json.dumps({"start_at_ns": 1, "stop_at_ns": 2}))
    found = build(LedgerConfig(run_dir=str(tmp_path), topology="echo"))
    assert (found["due"], found["delivery_ratio"], found["one_way_delay_p50_ms"]) == (0, None, None)


def test_a_message_due_twice_is_refused_and_what_was_there_stays(run: LedgerConfig) -> None:
    build(run)
    log, before = run.run_file("emissions.parquet"), run.run_file("ledger.parquet").read_bytes()
    rows = pq.read_table(log)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), log)
    names = files(run)
    with pytest.raises(
        Refusal, match=r"^emissions\.parquet: vehicle YV2RT40A8KB000001: a message is due twice$"
    ):
        build(run)
    assert files(run) == names
    assert run.run_file("ledger.parquet").read_bytes() == before


@pytest.mark.parametrize(
    "name", ["emissions.parquet", "received.parquet", "in_flight.parquet", "kafka_records.parquet"]
)
@pytest.mark.parametrize("damage", ["truncated", "foreign", "a column less"])
def test_a_damaged_file_is_named_in_a_line_and_nothing_is_written(
    run: LedgerConfig, name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.run_file(name)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    elif damage == "foreign":
        path.write_text("no table\n")
    else:
        rows = pq.read_table(path)
        pq.write_table(rows.drop_columns([rows.column_names[0]]), path)
    config = run.run_file("ledger.json")
    config.write_text(run.model_dump_json())
    names = files(run)
    assert main([str(config)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{path}: ")
    assert said.count("\n") == 1, said
    assert files(run) == names


def test_ctrl_c_ends_a_ledger_at_once_and_leaves_nothing(
    run: LedgerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def for_ever(*_: object, **__: object) -> str:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return "select count(*) as vehicle_id, 1 as epoch, 1 as sequence from range(100000000000) a where a.range % 7 = 3"

    monkeypatch.setattr("ledger.fates.ledger", for_ever)
    before = files(run)
    with pytest.raises(KeyboardInterrupt):
        build(run)
    assert files(run) == before


@pytest.mark.parametrize(("told", "built"), [(f'{{"command": "{BUILD}"}}\n', True), ("", False)])
def test_a_process_that_waits_builds_when_it_is_told_to_and_not_when_its_owner_is_gone(
    run: LedgerConfig, told: str, built: bool
) -> None:
    config = run.run_file("ledger.json")
    config.write_text(run.model_dump_json())
    before = files(run)
    command = [sys.executable, "-m", "ledger", WHEN_TOLD, str(config)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiting:
        said, _ = waiting.communicate(told, timeout=60)
    assert waiting.returncode == 0
    assert files(run) == (sorted([*before, "ledger.parquet", "metrics.json"]) if built else before)
    assert ('"partial": false' in said) == built


def test_a_process_that_builds_does_without_pandas(run: LedgerConfig) -> None:
    """A run waits for it: DuckDB and pyarrow would load pandas, for a third of a second."""
    config = run.run_file("ledger.json")
    config.write_text(run.model_dump_json())
    command = [sys.executable, "-X", "importtime", "-m", "ledger", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"duckdb", "pyarrow.parquet"} <= loaded
    assert "pandas.core" not in loaded  # the attempt alone is named, too


@pytest.mark.parametrize(
    "words", [[], [WHEN_TOLD, "a.json", "b.json"], ["--soon", "ledger.json"], ["a.json", "b.json"]]
)
def test_other_words_get_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == "usage: python -m ledger [--when-told] CONFIG.json\n"
