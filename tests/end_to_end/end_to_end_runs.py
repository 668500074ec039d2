"""Runs of the whole path as a user starts them: a process of its own, judged by its files and exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ivsim.run_directory import tag_of

TIMEOUT_S = 240


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

    def pid_of(self, name: str) -> int:
        """Return the process that the run notes under `name`."""
        for record in self.state_files():
            for line in record.read_text().splitlines():
                note = json.loads(line)
                if note["kind"] == "process" and note["name"] == name:
                    return int(note["pid"])
        raise AssertionError(f"no process {name}")

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


class Runs:
    """Starts runs below one directory and ends what is left of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.state = base / "state"
        self._started: list[Started] = []

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

    def close(self) -> None:
        for run in self._started:
            run.close()


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
