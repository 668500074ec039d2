"""A measurement, and a study of measurements, that a signal stops at any moment: what was measured until then is there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow.parquet as pq
import pytest

from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.store import Store

RATE = 20  # a producer waits for most of the time, and a signal meets it so
DURATION_S = 4.0
PIPE = ("pipe", "--platform", "null", "--rate", str(RATE), "--duration", str(DURATION_S), "--warmup", "1")
TIMEOUT_S = 60.0
LEAD_S = 0.5  # from the word to the first record
# Before the first record, before the warm-up's end, after it, at the very end, and while the rest is read and all is closed.
MOMENTS_S = (0.0, 0.6, 1.2, 1.8, 2.6, 3.4, 4.2, 4.45, 4.6, 4.9)
STUDY = """
schema_version = 2
title = "Idioms"
question = "What does a record cost?"
engine = "pipe"
repetitions = 3
metrics = ["client_cpu_us", "consumed"]
[scenario]
platform = "null"
record = "s1"
different = 20
duration_s = 0.6
warmup_s = 0.1
[axes]
format = ["json", "protobuf"]
"""


class Command:
    """`ivsim` as a user starts it, whose words on standard error can be waited for."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._said = directory / "said"
        self._file: IO[str] = self._said.open("w")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "ivsim.cli", *words],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=self._file,
        )

    def said(self) -> str:
        return self._said.read_text()

    def wait_until(self, there: Callable[[], bool]) -> None:
        end_s = time.monotonic() + TIMEOUT_S
        while not there():
            assert self.popen.poll() is None, self.said()
            assert time.monotonic() < end_s, self.said()
            time.sleep(0.02)  # another process, which tells nobody

    def ended(self) -> int:
        try:
            return self.popen.wait(TIMEOUT_S)
        finally:
            if self.popen.poll() is None:
                self.popen.kill()
                self.popen.wait()
            self._file.close()


def stopped(directory: Path, after_s: float, number: signal.Signals) -> None:
    """Stop a measurement so long after it began to send, and look at what it leaves."""
    command = Command(directory, *PIPE, "--output", "out")
    command.wait_until(lambda: ": sending" in command.said())
    time.sleep(after_s)  # the moment itself
    command.popen.send_signal(number)
    code = command.ended()
    assert "Traceback" not in command.said()
    # Behind the last file it may end by itself, or by the signal's own action.
    late = after_s > DURATION_S + LEAD_S
    assert code in ({128 + number, 0, -number} if late else {128 + number}), command.said()
    out = directory / "out"
    manifest, metrics = (json.loads((out / name).read_text()) for name in ("manifest.json", "metrics.json"))
    assert sum(metrics[fate] for fate in FATES) == metrics["produced"] == metrics["consumed"]
    if code in {0, -number}:
        assert metrics["produced"] == RATE * DURATION_S
        return
    words = f"stopped by {number.name} "
    assert f"ivsim: {words}" in command.said()
    if "when all had been sent" in command.said():
        assert metrics["produced"] == RATE * DURATION_S
        return
    assert manifest["error"].startswith(words), manifest["error"]
    assert [cause["words"] for cause in metrics["validity"]["causes"] if words in cause["words"]]
    assert metrics["validity"]["verdict"] == "degraded"
    sent_s = min(DURATION_S, max(0.0, after_s - LEAD_S))
    # Nothing is sent before it is due, and what was due is sent; a second for a machine that is busy.
    samples = pq.read_table(out / "samples.parquet")
    assert (np.asarray(samples["emitted_at_ns"]) >= np.asarray(samples["due_at_ns"])).all()
    assert RATE * (sent_s - 1.0) <= metrics["produced"] <= RATE * min(DURATION_S, sent_s + 1.0)
    assert words in (out / "report.html").read_text()


def test_a_stopped_measurement_has_the_figures_of_what_it_did(tmp_path: Path) -> None:
    stopped(tmp_path, 2.2, signal.SIGINT)


@pytest.mark.full
@pytest.mark.parametrize("after_s", MOMENTS_S)
def test_whatever_the_moment_nothing_that_was_measured_is_lost(tmp_path: Path, after_s: float) -> None:
    stopped(tmp_path, after_s, signal.SIGTERM)


@pytest.mark.full
def test_a_study_that_is_stopped_at_any_moment_measures_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done: set[tuple[str, int]] = set()
    for turn in range(10):
        command = Command(tmp_path, *words_for(tmp_path))
        time.sleep(0.5 + 0.4 * turn)  # the moment itself: each time a later one
        command.popen.send_signal(signal.SIGINT)
        code = command.ended()
        assert code in {0, 128 + signal.SIGINT}, command.said()
        assert "Traceback" not in command.said()
        now = measured(tmp_path / "out")
        assert done <= now
        done = now
    command = Command(tmp_path, *words_for(tmp_path))
    assert command.ended() == 0, command.said()
    assert len(measured(tmp_path / "out")) == 2 * 3
    assert "What does a record cost?" in (tmp_path / "out" / "report.md").read_text()


def words_for(directory: Path) -> tuple[str, ...]:
    begun = (directory / "out" / "study.json").exists()
    return ("study", "resume", "out") if begun else ("study", "run", "study.toml", "--output", "out")


def measured(results: Path) -> set[tuple[str, int]]:
    """Return the cells and repetitions that have figures; none of a study that has not begun."""
    if not (results / "study.json").exists():
        return set()
    store = Store.open(results)
    return {
        (kept.task.cell.name, kept.task.repetition) for kept in store.all_kept(store.cells()) if kept.figures
    }
