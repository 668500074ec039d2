"""kill -9 of a real run in the middle: the next run works, and cleaning leaves nothing of the first."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ivsim.testbed import leftovers
from ivsim.testbed.leftovers import NAMESPACES

pytestmark = [pytest.mark.broker, pytest.mark.kafka, pytest.mark.netns, pytest.mark.spark, pytest.mark.slow]

IVSIM = Path(sys.executable).with_name("ivsim")
START_TIMEOUT_S = 180.0


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"
    leftovers.clean(leftovers.find())


def test_after_a_kill_the_next_run_works_and_cleaning_leaves_nothing(state: Path, tmp_path: Path) -> None:
    with (tmp_path / "first.log").open("wb") as log:
        argv = [
            IVSIM,
            "run",
            "--vehicles",
            "2",
            "--duration",
            "300",
            "--quiet",
            "--output",
            tmp_path / "first",
        ]
        first = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            wait_for_emissions(first, tmp_path / "first")
        finally:
            first.kill()
            first.wait()
    noted = [json.loads(line) for path in state.glob("*.jsonl") for line in path.read_text().splitlines()]
    prefixes = {note["name"].rpartition("-")[0] for note in noted if note["kind"] == "namespace"}
    assert prefixes
    assert of_run(NAMESPACES, prefixes)

    argv = [IVSIM, "run", "--vehicles", "2", "--duration", "3", "--json", "--output", tmp_path / "second"]
    second = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["delivery_ratio"] == 1.0

    found = leftovers.find()
    assert found
    assert leftovers.clean(found) == []
    assert leftovers.find() == []
    assert not of_run(NAMESPACES, prefixes)
    assert not of_run(Path("/sys/class/net"), prefixes)


def of_run(directory: Path, prefixes: set[str]) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(tuple(prefixes))]


def wait_for_emissions(run: subprocess.Popen[bytes], directory: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not any(path.stat().st_size for path in directory.glob("emissions*.events")):
        assert run.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline_s, "no message within the limit"
        time.sleep(0.1)
