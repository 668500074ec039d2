"""The load tests of docs/load.md, as a user types them, and one that ends itself: real parts throughout."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ivsim.runs.validity import EXIT_INVALID

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240


def load(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "load", *arguments, "--output", str(directory / "run"), "--quiet"],
        cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.netns
def test_the_first_example_of_the_page(tmp_path: Path) -> None:
    found = re.search(r"^    ivsim load (.+)$", (ROOT / "docs" / "load.md").read_text(), re.MULTILINE)
    assert found is not None
    done = load(shlex.split(found[1]), tmp_path)
    word = done.stdout.split(":")[0].split("\n")[0]
    # On a machine with other work the senders may be late: then the first word says so.
    assert (word, done.returncode) in {
        ("valid", 0), ("degraded", 0), ("generator-limited", 0), ("generator-limited", EXIT_INVALID)
    }, done.stderr  # fmt: skip
    assert "threshold delivery_ratio == 1: met: 1" in done.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    # Five vehicles for 3 s; then up to 20, each from when the ramp reaches it.
    assert 15 + 30 < metrics["due"] < 15 + 45
    assert metrics["delivered"] == metrics["due"]
    (suite,) = ET.parse(tmp_path / "load.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")
    audited = subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "audit", str(tmp_path / "run")],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert audited.returncode == 0, audited.stdout


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.netns
def test_a_condition_ends_the_test_and_says_which(tmp_path: Path) -> None:
    arguments = ["--topology", "echo", "--link", "direct", "--stage", "60s:4", "--loss-timeout", "5"]
    arguments += [
        "--abort-on",
        "emitted > 8",
        "--threshold",
        "delivery_ratio == 1",
        "--junit",
        "load.xml",
        "--json",
    ]
    done = load(arguments, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "ivsim: --abort-on 'emitted > 8': it was " in done.stderr
    result = json.loads(done.stdout)
    assert result["metrics"]["validity"]["verdict"] == "invalid"
    assert "--abort-on" in result["reasons"]
    assert result["stages"][0]["begin_vehicles"] == 4
    assert (tmp_path / "load.xml").is_file()


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.netns
def test_a_whole_search_finds_the_load_that_a_level_allows(tmp_path: Path) -> None:
    # A payload has 1.1 to 1.2 kB: 6 messages/s stay below the level, 9 do not.
    arguments = [
        "--find-capacity", "--from", "4", "--to", "20", "--resolution", "0.5", "--duration", "4", "--warmup", "1",
        "--link", "direct", "--threshold", "goodput_bps < 67000", "--threshold", "delivery_ratio == 1", "--json",
    ]  # fmt: skip
    done = load(arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "run"
    summary = json.loads((directory / "summary.json").read_text())
    assert json.loads(done.stdout)["capacity"] == summary["capacity"] == 6
    assert [(one["kind"], one["load"], one["verdict"]) for one in summary["steps"][1:]] == [
        ("step", 4, "met"), ("step", 6, "met"), ("step", 9, "missed"), *[("confirmation", 6, "met")] * 3,
    ]  # fmt: skip
    assert len({one["seed"] for one in summary["steps"] if one["load"] == 6}) == 4
    for step in summary["steps"]:
        metrics = json.loads((directory / step["directory"] / "metrics.json").read_text())
        assert metrics["delivered"] == metrics["due"]
        assert metrics["window_to_s"] - metrics["window_from_s"] == step["hold_s"]
        assert step["hold_s"] == (9.0 if step["kind"] == "confirmation" else 3.0)
    audited = subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "audit", str(directory / summary["steps"][-1]["directory"])],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert audited.returncode == 0, audited.stdout


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.netns
def test_a_search_that_ctrl_c_ends_keeps_what_it_has_measured(tmp_path: Path) -> None:
    found = re.search(
        r"^    ivsim load (--find-capacity .+)$", (ROOT / "docs" / "load.md").read_text(), re.MULTILINE
    )
    assert found is not None
    command = [sys.executable, "-m", "ivsim.cli", "load", *shlex.split(found[1])]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("2: 5 messages/s: "):
                process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        printed = process.stdout.read()
        assert process.wait(TIMEOUT_S) == 128 + signal.SIGINT, said
    assert printed.startswith("stopped: by SIGINT; so far ")
    assert "ivsim: stopped by SIGINT\n" in said
    directory = tmp_path / "capacity"
    summary = json.loads((directory / "summary.json").read_text())
    assert [(one["kind"], one["load"]) for one in summary["steps"]] == [("warm-up", 5), ("step", 5)]
    step = summary["steps"][1]
    assert {"spark", "kafka", "mosquitto", "sender", "gateway-0", "runner"} <= step["counters"][
        "cores"
    ].keys()
    metrics = json.loads((directory / step["directory"] / "metrics.json").read_text())
    assert metrics["delivered"] == metrics["due"] > 0
    # Five seconds are too few samples to judge a queue by: what the queues are made of has been counted.
    counters = directory / f"{step['directory']}.counters.jsonl"
    *_, last = map(json.loads, counters.read_text().splitlines())
    for count in ("emitted", "acknowledged", "received", "appended", "in_twin"):
        assert last[count] > 0, last
    assert {"latency.svg", "report.html", "report.md"} <= {one.name for one in directory.iterdir()}
    assert not list(directory.glob("**/work"))
