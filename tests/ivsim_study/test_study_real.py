"""Echo cells on a real testbed: figures as the ledger's, every cell's messages its own, the command's exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.options import run_options
from ivsim.runner import execute
from ivsim.study.figures_of_cells import echo_figures, measured

pytestmark = [pytest.mark.broker, pytest.mark.netns]

STUDY = """
title = "A short one"
question = "Does it run?"
metrics = ["latency_mean_ms", "unsuccessful_ratio", "crossing_overhead_bytes"]
[scenario]
topology = "echo"
link = "direct"
vehicles = 3
interval_s = 0.5
warmup_s = 0.5
duration_s = 2.5
loss_timeout_s = 5.0
[axes]
mode = ["mqtt qos0", "mqtt qos2", "coap non", "coap con"]
format = ["small", "protobuf"]
[service_levels]
latency_mean_ms = "< 10000"
"""


@pytest.mark.spark
def test_figures_are_the_ledgers(tmp_path: Path):
    options = run_options(
        protocol="mqtt", mode="qos1", topology="echo", link="direct", vehicles=5, interval_s=0.5, duration_s=4.0,
        warmup_s=1.0, loss_timeout_s=5.0,
    )  # fmt: skip
    outcome = execute(options, tmp_path / "run", quiet=True)
    assert outcome.exit_code == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    from_ns = run["start_at_ns"] + round(run["warmup_s"] * 1e9)
    table = pq.read_table(tmp_path / "run" / "emissions.parquet")
    found = echo_figures(measured(table, 1, from_ns, run["end_at_ns"]), options.loss_timeout_s)
    assert found["due"] == 30
    for name, value in found.items():
        if name in outcome.metrics:
            assert outcome.metrics[name] == pytest.approx(value), name


def study(tmp_path: Path, *words: str, text: str = STUDY) -> subprocess.CompletedProcess[str]:
    (tmp_path / "study.toml").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "study", *words],
        cwd=tmp_path,
        env=os.environ | {"IVSIM_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_study_runs_reports_resumes_and_compares(tmp_path: Path):
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--junit", "junit.xml", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    states = [json.loads(p.read_text()) for p in (tmp_path / "out" / "cells").glob("*/1/state.json")]
    assert len(states) == 8
    for state in states:
        figures = state["figures"]
        assert (figures["due"], figures["delivered"]) == (12, 12)
        assert figures["message_overhead_bytes"] > 0
        assert figures["kernel_drops"] == 0
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()
    assert "latency_mean_ms is lowest for" in (tmp_path / "out" / "report.md").read_text()
    assert not (tmp_path / "out" / "work").exists()

    again = study(tmp_path, "resume", "out")
    assert (again.returncode, again.stderr) == (0, "")
    compared = study(tmp_path, "compare", "out", "out")
    assert compared.returncode == 0
    assert "yes" not in compared.stdout


def test_a_missed_service_level_is_exit_code_3(tmp_path: Path):
    text = STUDY.replace('"< 10000"', '"< 0.001"').replace(
        '["mqtt qos0", "mqtt qos2", "coap non", "coap con"]', '["mqtt qos0"]'
    )
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--quiet", text=text)
    assert ran.returncode == 3
    assert "mode=mqtt-qos0_format=small: latency_mean_ms is" in ran.stderr


def test_a_typo_is_exit_code_2_and_nothing_is_made(tmp_path: Path):
    ran = study(
        tmp_path, "run", "study.toml", "--output", "out", text=STUDY.replace("loss_timeout_s", "loss_timeout")
    )
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "loss-timeout" in ran.stderr or "loss_timeout" in ran.stderr
    assert not (tmp_path / "out").exists()
