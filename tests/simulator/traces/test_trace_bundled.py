"""The bundled files are what their recipes say, and fit for the main job."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import Refusal
from simulator.traces import BUNDLED, DEFAULT, bundled, bundled_path, to_csv
from simulator.traces.make import files
from simulator.traces.statistics import runs

FOLDER = Path(__file__).parents[3] / "traces"


@pytest.mark.parametrize("name", BUNDLED)
def test_file_can_be_made_again_byte_for_byte(name):
    assert (FOLDER / f"{name}.csv").read_text() == to_csv(BUNDLED[name].make())


def test_nothing_else_lies_there():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.csv" for name in BUNDLED} | {"README.md"}


def test_readme_is_the_one_made_from_the_recipes():
    assert (FOLDER / "README.md").read_bytes() == files()["README.md"]


def test_readme_states_what_is_needed_to_make_each_again():
    text = (FOLDER / "README.md").read_text()
    for name, recipe in BUNDLED.items():
        section = re.search(rf"^## {name}\b.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[0]
        digest = hashlib.sha256((FOLDER / f"{name}.csv").read_bytes()).hexdigest()
        assert digest in section
        assert f"seed: {recipe.seed}" in section
        assert "ivsim trace generate --profile" in section
    assert "CC0-1.0" in text


def test_every_trace_says_where_it_is_from_and_what_a_rate_means():
    for name in BUNDLED:
        trace = bundled(name)
        assert {"origin", "licence", "command", "seed"} <= set(trace.header)
        has_rate = trace.uplink_kbps is not None or trace.downlink_kbps is not None
        assert (trace.header.get("rate_meaning") in {"capacity", "as_logged"}) == has_rate


def test_default_has_weak_seconds_and_yet_carries_a_message_a_second():
    trace = bundled(DEFAULT)
    rate = trace.uplink_kbps
    assert 0.05 < np.mean(rate <= 100) < 0.10
    assert 0 < runs(rate == 0).max() <= 4
    assert trace.rtt_ms.max() < 1_000
    # 1.2 kB a second are 9.6 kbit/s; at 24 kbit/s every bit is through within 5 s, wherever a vehicle enters.
    waiting_kbit, longest_s = 0.0, 0.0
    twice = np.concatenate([rate, rate])
    through = np.cumsum(twice)
    for second in range(len(rate)):
        waiting_kbit = max(0.0, waiting_kbit + 24 - twice[second])
        done = np.searchsorted(through, through[second] + waiting_kbit - 1e-9)
        longest_s = max(longest_s, done - second)
    assert longest_s <= 5


def test_paper_link_has_the_same_uplink_as_the_logged_one():
    assert np.array_equal(
        bundled("paper-lte-car").uplink_kbps, bundled("lte-car-uplink-as-logged").uplink_kbps
    )


def test_unknown_name_lists_those_there_are():
    with pytest.raises(Refusal, match="no bundled trace of that name, there are car-2024"):
        bundled("car-1999")


def test_lost_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("simulator.traces.recipes.bundled_folder", lambda: tmp_path)
    with pytest.raises(Refusal, match="missing from this installation"):
        bundled_path(DEFAULT)


def test_wheel_carries_them_where_they_are_looked_for(tmp_path):
    root = FOLDER.parent
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True, timeout=300)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    script = "from simulator.traces import BUNDLED, bundled, bundled_path; print(bundled_path('tunnel'));"
    script += "[bundled(name) for name in BUNDLED]"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "installed",
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip().endswith("installed/simulator/traces/bundled/tunnel.csv")
