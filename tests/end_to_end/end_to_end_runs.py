"""Runs of the whole path as a user starts them: a process of its own, judged by its files and exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ivsim import Testbed
from ivsim.runs.directory import tag_of
from ivsim.runs.served import listening, serve
from ivsim.runs.validity import EXIT_INVALID
from ivsim.testbed import leftovers
from tests.one_spark import TESTBED, OneSpark

TIMEOUT_S = 240
# Findings that a busy machine brings about. They are true of the run, and not what tests of the whole path are about:
# tests/simulator/links judges links, and tests/ivsim/runs/test_validity.py what is said of each finding.
OF_THE_MACHINE = frozenset({"certificate_off", "generator_limited"})


def ended_in_order(code: int, metrics: Mapping[str, Any]) -> bool:
    """Whether a run did all that it was to do; where it calls itself invalid, by the machine's findings alone."""
    worst = {cause["name"] for cause in metrics["validity"]["causes"] if cause["severity"] == "invalid"}
    return code == 0 or (code == EXIT_INVALID and worst <= OF_THE_MACHINE)


@dataclass
class Finished:
    """A run that has ended."""

    code: int
    directory: Path
    stdout: str
    stderr: str

    @property
    def metrics(self) -> dict[str, Any]:
        return json.loads((self.directory / "metrics.json").read_text())

    @property
    def in_order(self) -> bool:
        """As `ended_in_order`."""
        return ended_in_order(self.code, self.metrics)

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.directory / "manifest.json").read_text())

    def rows(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.directory / name).to_pylist()


class Started:
    """A run that is going on."""

    def __init__(self, arguments: tuple[str, ...], directory: Path, state: Path) -> None:
        self.directory = directory
        self._out = directory.with_suffix(".out").open("w+")
        self._err = directory.with_suffix(".err").open("w+")
        environment = {**os.environ, "IVSIM_STATE_DIR": str(state)}
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "ivsim.cli", *arguments],
            stdout=self._out,
            stderr=self._err,
            env=environment,
            cwd=directory.parent,
            start_new_session=True,
        )

    def wait_for(self, ready: Callable[[], bool], timeout_s: float = 120) -> None:
        end = time.monotonic() + timeout_s
        while not ready():
            assert self.popen.poll() is None, self.stderr()
            assert time.monotonic() < end, f"not ready in {timeout_s} s: {self.stderr()}"
            time.sleep(0.05)

    def wait_until_emitting(self, count: int = 1) -> None:
        """Wait until the emission log holds so many records beyond those of the connections."""
        log = self.directory / "emissions.events"
        self.wait_for(lambda: log.exists() and log.stat().st_size >= 32 * (count + 60))

    def state_files(self) -> list[Path]:
        return sorted((self.directory.parent / "state").glob("*.jsonl"))

    def stderr(self) -> str:
        self._err.seek(0)
        return self._err.read()

    def finish(self, timeout_s: float = TIMEOUT_S) -> Finished:
        code = self.popen.wait(timeout_s)
        self._out.seek(0)
        return Finished(code, self.directory, self._out.read(), self.stderr())

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            self.popen.wait(60)
        self._out.close()
        self._err.close()


class Up:
    """`ivsim up` with notes in one directory; it closes within `CLOSE_S` of its SIGTERM."""

    CLOSE_S = 60

    def __init__(self, base: Path, state: Path) -> None:
        self._out = (base / "up.out").open("w+")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "ivsim.cli", "up"],
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "IVSIM_STATE_DIR": str(state)},
            cwd=base,
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + TIMEOUT_S
        while "The testbed is up" not in self.printed():
            assert self.popen.poll() is None, self.printed()
            assert time.monotonic() < end, self.printed()
            time.sleep(0.1)

    def printed(self) -> str:
        self._out.seek(0)
        return self._out.read()

    def close(self) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        code = self.popen.wait(self.CLOSE_S)
        self._out.close()
        return code


@contextmanager
def served_testbed(state: Path) -> Iterator[Testbed]:
    """A testbed of this process that serves `ivsim run --testbed` as `ivsim up` does, with notes and socket in `state`."""
    state.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IVSIM_STATE_DIR", str(state))
        with Testbed() as testbed, listening() as server:
            testbed.warm()
            thread = threading.Thread(target=_serve_until_shut, args=(testbed, server))
            thread.start()
            try:
                yield testbed
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join(TIMEOUT_S)
                assert not thread.is_alive()
        assert list(state.iterdir()) == []
        assert leftovers.find() == []


def _serve_until_shut(testbed: Testbed, server: socket.socket) -> None:
    try:
        serve(testbed, server)
    except OSError as error:
        if error.errno != errno.EINVAL:  # what `accept` says of a socket that was shut down
            raise


class Runs:
    """Starts runs below one directory and ends what is left of them.

    `start` and `run` open and close everything for themselves; `on_testbed` shares one testbed, which `one_spark`
    holds from the first such run on.
    """

    def __init__(self, base: Path, one_spark: OneSpark) -> None:
        self.base = base
        self.state = base / "state"
        self._started: list[Started] = []
        self._one_spark = one_spark

    def on_testbed(self, name: str, *arguments: str) -> Finished:
        """Run on the shared testbed; for tests that are not about starting and stopping."""
        return self.start_on_testbed(name, *arguments).finish()

    def start_on_testbed(self, name: str, *arguments: str) -> Started:
        self.testbed()
        return self.start(name, "--testbed", *arguments)

    def testbed(self) -> Testbed:
        """Return the shared testbed, for runs of this process."""
        return self._one_spark.get(TESTBED, lambda: served_testbed(self.state))

    def start(self, name: str, *arguments: str) -> Started:
        directory = self.base / name
        run = Started(("run", *arguments, "--output", str(directory)), directory, self.state)
        self._started.append(run)
        return run

    def run(self, name: str, *arguments: str) -> Finished:
        return self.start(name, *arguments).finish()

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another sub-command with the same notes of what is open."""
        return subprocess.run(
            [sys.executable, "-m", "ivsim.cli", *arguments],
            env={**os.environ, "IVSIM_STATE_DIR": str(self.state)},
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def end_all(self) -> None:
        """End the runs that go on, with their files."""
        for run in self._started:
            run.close()
        self._started.clear()


def due_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a ledger that were due before its run stopped."""
    return [row for row in rows if row["unsent_reason"] != "run_stopped"]


def processes_of(run: str) -> list[int]:
    """Return the living processes that carry the mark of a run."""
    mark = f"IVSIM_RUN={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                marked = mark in (entry / "environ").read_bytes().split(b"\0")
                alive = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
            except OSError:
                continue
            if marked and alive:
                found.append(int(entry.name))
    return found


def namespaces_of(run: str) -> list[str]:
    """Return the namespaces that a run made and that are still there."""
    root = Path("/run/netns")
    return [entry.name for entry in root.glob(f"ivsim-{tag_of(run)}-*")] if root.is_dir() else []
