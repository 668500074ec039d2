"""What the twin is told of a query beside its own, and what run and report say of it; without one nothing is other than it was."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.report.page import write_page
from ivsim.runs import processes
from ivsim.runs.directory import RunDirectory
from ivsim.runs.endpoints import KafkaAddress
from ivsim.topologies import TOPOLOGIES
from twin.config import TwinConfig
from twin.queries.stations import read_stations

ROOT = Path(__file__).resolve().parents[3]
QUERY = {"query": "nearest-station", "stations": str(ROOT / "examples/stations.csv")}
FOUND = {
    "name": "nearest-station", "limit_ms": 250.0, "answers": 39, "answers_in_time_ratio": 0.95,
    "answer_latency_mean_ms": 101.0, "answer_latency_p50_ms": 99.0, "answer_latency_p99_ms": 312.5,
}  # fmt: skip


def told(options: RunOptions, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    # Where Spark's jars are is another matter.
    monkeypatch.setattr(processes, "installed_jars", lambda _: directory)
    plan: Any = SimpleNamespace(
        options=options, topology=TOPOLOGIES[options.topology], directory=RunDirectory(directory)
    )
    return processes.twin_config(plan, KafkaAddress("k:1"), str(directory / "checkpoint"))


def test_the_twin_is_told_of_the_query_and_its_stations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = told(run_options(**QUERY), tmp_path, monkeypatch)
    # As the twin reads it, from JSON.
    read = TwinConfig.model_validate(json.loads(json.dumps(config)))
    known = read_stations(ROOT / "examples/stations.csv")
    assert (read.query, read.stations) == ("nearest-station", known.every)
    with pytest.raises(ValueError, match="allowed are nearest-station"):
        TwinConfig.model_validate({**config, "query": "furthest-station"})


def test_without_a_query_nobody_is_told_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = told(run_options(), tmp_path, monkeypatch)
    assert {"query", "stations"}.isdisjoint(config)
    read = TwinConfig.model_validate(json.loads(json.dumps(config)))
    assert (read.query, read.stations) == (None, ())


@pytest.mark.parametrize("found", [None, FOUND])
def test_the_page_has_the_answers_where_there_was_a_query(
    tmp_path: Path, found: dict[str, Any] | None
) -> None:
    manifest = {
        "run": "r1", "options": RunOptions().model_dump(mode="json"), "link": {"name": "uml"}, "start_at_ns": 1
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "metrics.json").write_text(json.dumps({} if found is None else {"query": found}))
    page = write_page(tmp_path).read_text()
    assert ("Answers of the query nearest-station" in page) == (found is not None)
    assert ("up to 250 ms after its message was due" in page) == (found is not None)
    assert ("312.5" in page) == (found is not None)
