"""Whole runs on a disk that fills up: one line, and what was measured until then is accounted for."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.option_rules import run_options
from ivsim.runs.disk import MB, RESERVE_BYTES
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]
SIZE_BYTES = 200 * MB
OPTIONS = run_options(vehicles=10, interval_s=1.0, duration_s=30.0, loss_timeout_s=5.0)
FILLED_IN_SECOND = 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        # Lazily: where a commit could not be written, Spark keeps its file open for as long as it lives.
        subprocess.run(["umount", "--lazy", disk], check=True)


class Filler:
    """Writes into the disk, once, until so many bytes are free."""

    def __init__(self, disk: Path, leave_bytes: int) -> None:
        self._file, self._leave_bytes = disk / "filler", leave_bytes

    def __call__(self, run: StartedRun) -> None:
        if run.second() < FILLED_IN_SECOND or self._file.exists():
            return
        with contextlib.suppress(OSError), self._file.open("wb", buffering=0) as file:
            while shutil.disk_usage(self._file).free > self._leave_bytes:
                file.write(bytes(100_000))


@pytest.mark.full
def test_a_run_ends_before_its_disk_is_full_and_closes_its_ledger(small_disk: Path, testbed: Testbed) -> None:
    results = small_disk / "run"
    outcome = testbed.run(OPTIONS, results, disturb=Filler(small_disk, RESERVE_BYTES - 4 * MB))
    assert outcome.exit_code == 1
    assert outcome.error is not None
    assert outcome.error.startswith(f"{results}: its disk is nearly full (")
    assert "\n" not in outcome.error
    ledger = pq.read_table(results / "ledger.parquet").to_pylist()
    fates = {row["fate"] for row in ledger}
    assert fates <= {"delivered", "late", "lost", "unsent", "unknown"}
    assert sum(row["fate"] == "delivered" for row in ledger) >= 10 * (FILLED_IN_SECOND - 2)
    in_window = sum(row["fate"] == "delivered" for row in ledger if row["in_window"])
    assert outcome.metrics["delivered"] == in_window > 0
    assert (results / "report.html").is_file()


@pytest.mark.full
def test_a_disk_that_is_full_at_once_is_one_line_and_leaves_what_was_written(
    small_disk: Path, testbed: Testbed
) -> None:
    results = small_disk / "run"
    outcome = testbed.run(OPTIONS, results, disturb=Filler(small_disk, 0))
    assert outcome.exit_code == 1
    assert outcome.error is not None
    assert "its disk is " in outcome.error
    assert "\n" not in outcome.error
    assert (results / "emissions.events").stat().st_size > 0
    assert not (results / "work").exists()


def test_a_run_that_would_not_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    disk = tmp_path / "tiny"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], check=True)
    try:
        done = subprocess.run(
            [Path(sys.executable).with_name("ivsim"), "run", "--output", disk / "run"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
    assert done.returncode == 2
    assert " MB free on its disk, about " in done.stderr
    assert len(done.stderr.splitlines()) == 1
