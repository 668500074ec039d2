"""Echo cells on a real testbed: figures as the ledger's, every cell's messages its own, the command's exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from end_to_end_runs import ended_in_order

from ivsim import Testbed
from ivsim.option_rules import run_options
from ivsim.study.cells import repetition_seed
from ivsim.study.engines.echo.engine import pings, pings_of_sweep
from ivsim.study.engines.echo.metrics import echo_figures, measured
from ivsim.study.engines.echo.ping import PINGS

pytestmark = [pytest.mark.broker, pytest.mark.netns]

STUDY = """
title = "A short one"
question = "Does it run?"
metrics = ["latency_mean_ms", "unsuccessful_ratio", "crossing_overhead_bytes"]
engine = "echo"
repetitions = 3
[scenario]
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


@pytest.mark.full
@pytest.mark.spark
def test_figures_are_the_ledgers(testbed: Testbed, tmp_path: Path):
    options = run_options(
        protocol="mqtt", mode="qos1", topology="echo", link="direct", vehicles=5, interval_s=0.5, duration_s=4.0,
        warmup_s=1.0, loss_timeout_s=5.0,
    )  # fmt: skip
    outcome = testbed.run(options, tmp_path / "run")
    assert ended_in_order(outcome.exit_code, outcome.metrics)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    from_ns = run["start_at_ns"] + round(run["warmup_s"] * 1e9)
    table = pq.read_table(tmp_path / "run" / "emissions.parquet")
    found = echo_figures(measured(table, 1, from_ns, run["end_at_ns"], options.loss_timeout_s))
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
        timeout=240,
    )


@pytest.mark.full
@pytest.mark.slow
def test_a_study_runs_reports_resumes_and_compares(tmp_path: Path):
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--junit", "junit.xml", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    states = [json.loads(p.read_text()) for p in (tmp_path / "out" / "cells").glob("*/*/state.json")]
    assert len(states) == 24
    assert {state["seed"] for state in states} == {repetition_seed(1, n) for n in (1, 2, 3)}
    # Vehicles of another repetition send other content at other offsets.
    tables = [
        pq.read_table(p)
        for p in (tmp_path / "out" / "cells").glob("*qos0_format=protobuf/*/emissions.parquet")
    ]
    starts = [t.column("due_at_ns").to_numpy() for t in tables]
    assert len({tuple((due - due.min()).tolist()) for due in starts}) == 3
    for state in states:
        figures = state["figures"]
        assert (figures["due"], figures["delivered"]) == (12, 12)
        assert figures["message_overhead_bytes"] > 0
        assert figures["kernel_drops"] == 0
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()
    text = (tmp_path / "out" / "report.md").read_text()
    assert re.search(
        r"\*\*(latency_mean_ms is .* ms less for|The difference that it compares is no more)", text
    )
    assert not (tmp_path / "out" / "work").exists()

    again = study(tmp_path, "resume", "out")
    assert (again.returncode, again.stderr) == (0, "")
    compared = study(tmp_path, "compare", "out", "out")
    assert compared.returncode == 0
    assert "yes" not in compared.stdout


@pytest.mark.full
@pytest.mark.slow
def test_a_missed_service_level_is_exit_code_3(tmp_path: Path):
    # Bytes, which differ little between messages: a busy machine's latencies may leave any bound undecided.
    text = STUDY.replace('latency_mean_ms = "< 10000"', 'crossing_overhead_bytes = "< 1"').replace(
        '["mqtt qos0", "mqtt qos2", "coap non", "coap con"]', '["mqtt qos0"]'
    )
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--quiet", text=text)
    assert ran.returncode == 3
    assert "mode=mqtt-qos0_format=small: not met: crossing_overhead_bytes is" in ran.stderr


@pytest.mark.full
@pytest.mark.slow
def test_one_repetition_decides_no_service_level(tmp_path: Path):
    text = STUDY.replace("repetitions = 3", "repetitions = 1").replace(
        '["mqtt qos0", "mqtt qos2", "coap non", "coap con"]', '["coap non"]'
    )
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--quiet", text=text)
    assert ran.returncode == 5
    assert "undecided: latency_mean_ms is" in ran.stderr
    assert "too few repetitions: 1 of at least 3" in ran.stderr
    planned = study(tmp_path, "plan", "out", "--width", "10%")
    assert planned.returncode == 0
    assert "what differs from one to the next is not in it" in planned.stdout


def test_a_typo_is_exit_code_2_and_nothing_is_made(tmp_path: Path):
    ran = study(
        tmp_path, "run", "study.toml", "--output", "out", text=STUDY.replace("loss_timeout_s", "loss_timeout")
    )
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "loss-timeout" in ran.stderr or "loss_timeout" in ran.stderr
    assert not (tmp_path / "out").exists()


PING = """
title = "Near a ping"
question = "What do protocols add to a ping?"
metrics = ["latency_mean_ms"]
engine = "echo"
repetitions = 2
[scenario]
vehicles = 3
interval_s = 0.5
warmup_s = 0.5
duration_s = 2.5
loss_timeout_s = 3.0
loss_ratio = 0.0
format = "small"
trace = "paper-rtt"
shaping = "cloud_egress"
[sweeps.fixed.axes]
mode = ["mqtt qos0", "mqtt qos2"]
rtt = ["20"]
[sweeps.changing.axes]
mode = ["mqtt qos0"]
"""


@pytest.mark.full
def test_a_link_that_keeps_one_delay_is_pinged_under_it(tmp_path: Path):
    ran = study(tmp_path, "run", "study.toml", "--output", "out", "--quiet", text=PING)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = pings_of_sweep(tmp_path / "out", "fixed")
    assert [len(times) for times in found] == [PINGS, PINGS]
    assert min(map(min, found)) >= 20.0
    assert pings_of_sweep(tmp_path / "out", "changing") == []
    means = {}
    for mode in ("mqtt-qos0", "mqtt-qos2"):
        file = tmp_path / "out" / "cells" / f"fixed_mode={mode}_rtt=20" / "1" / "state.json"
        means[mode] = json.loads(file.read_text())["figures"]["latency_mean_ms"]
    # A ping and a broker; QoS 2 another round trip at the least. The bare link's ping has its own file.
    assert means["mqtt-qos0"] >= 20.0
    assert means["mqtt-qos2"] >= 40.0
    assert min(pings(tmp_path / "out", "auto")) < 20.0
