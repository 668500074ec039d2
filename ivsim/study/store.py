"""A study's results on disk: what is finished stays finished, and each file is whole or absent."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from ivsim.run_directory import machine, versions, write_json
from ivsim.study.model import SCHEMA, Cell, Study
from ivsim.study.plan import Task
from ivsim.testbed.mosquitto import SEARCH_PATH
from schemas.errors import Refusal

DONE, FAILED, OPEN = "done", "failed", "open"
FREE_BYTES: Final = 300 << 20
_TABLES: Final = ("emissions.parquet", "wire_messages.parquet", "ledger.parquet")


class Kept(NamedTuple):
    """What is known of one repetition of one cell."""

    task: Task
    state: str
    reason: str | None
    figures: dict[str, Any]
    directory: Path


def _write_head(path: Path, head: dict[str, Any]) -> None:
    # The order of the axes is the study's: of its cells, their names and the columns of the report.
    write_json(path / "study.json", head, sort_keys=False)


class Store:
    """The directory of one study's results.

    Attributes:
        head: study.json: the study as it was, quick or not, versions, machine.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self.head = head

    @classmethod
    def create(cls, path: Path, name: str, study: Study, *, quick: bool) -> Store:
        """Make the directory; Refusal when it has anything in it or cannot be written."""
        if path.is_dir() and any(path.iterdir()):
            raise Refusal(f"--output {path}: not empty; `ivsim study resume {path}` goes on with it")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(f"--output {path}: {error.strerror}") from None
        with full_disk(path):
            head = {
                "schema": SCHEMA,
                "name": name,
                "quick": quick,
                "study": study.model_dump(),
                "versions": versions() | broker_versions(),
                "machine": machine(),
                "began_at_ns": time.time_ns(),
            }
            _write_head(path, head)
        return cls(path, head)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open results that are there; Refusal for another version's, a broken or a missing one."""
        file = path / "study.json"
        try:
            head = json.loads(file.read_text())
        except OSError as error:
            raise Refusal(f"{file}: {error.strerror}; this is no directory of study results") from None
        except ValueError as error:
            raise Refusal(f"{file}: no JSON: {error}") from None
        if not isinstance(head, dict) or head.get("schema") != SCHEMA:
            found = head.get("schema") if isinstance(head, dict) else None
            raise Refusal(f"{file}: schema {found!r}: this ivsim reads {SCHEMA}; nothing was changed")
        return cls(path, head)

    @property
    def study(self) -> Study:
        return Study.model_validate(self.head["study"])

    @property
    def quick(self) -> bool:
        return bool(self.head["quick"])

    @property
    def name(self) -> str:
        return str(self.head["name"])

    def check_versions(self) -> None:
        """Refuse to go on under another ivsim: cells of two versions are not one result."""
        before, now = self.head["versions"]["ivsim"], versions()["ivsim"]
        if before != now:
            raise Refusal(
                f"{self.path}: begun by ivsim {before}, this is {now}: finish it there or begin anew"
                " (report and compare still read it)"
            )

    def spend(self, seconds: float) -> None:
        """Add to the time that running took, over all calls."""
        self.head["spent_s"] = float(self.head.get("spent_s", 0.0)) + seconds
        _write_head(self.path, self.head)

    def directory(self, task: Task) -> Path:
        return self.path / "cells" / task.cell.name / str(task.repetition)

    def kept(self, task: Task) -> Kept:
        """Return what is known of a task; an unfinished one is open."""
        directory = self.directory(task)
        try:
            found = json.loads((directory / "state.json").read_text())
            return Kept(task, found["state"], found.get("reason"), found.get("figures") or {}, directory)
        except (OSError, ValueError, KeyError):
            return Kept(task, OPEN, None, {}, directory)

    def all_kept(self, cells: list[Cell]) -> list[Kept]:
        """Return every repetition of every cell."""
        count = 1 if self.quick else self.study.repetitions
        return [self.kept(Task(cell, n)) for cell in cells for n in range(1, count + 1)]

    def begin(self, task: Task) -> Path:
        """Return the task's directory, empty."""
        directory = self.directory(task)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def finish(self, task: Task, figures: dict[str, Any]) -> None:
        """Keep a task as done; written last, so that half a task is never taken for one."""
        write_json(self.directory(task) / "state.json", {"state": DONE, "figures": figures})

    def fail(self, task: Task, reason: str) -> None:
        """Keep a task as failed, with its reason."""
        self.directory(task).mkdir(parents=True, exist_ok=True)
        write_json(self.directory(task) / "state.json", {"state": FAILED, "reason": reason})


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Turn a full disk into one line that says how to go on; what is finished stays."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refusal(disk_line(path)) from None
        raise


def disk_line(path: Path) -> str:
    return f"{path}: the disk is full; what is finished is kept: free space, then `ivsim study resume {path}`"


def check_space(path: Path, needed: int = FREE_BYTES) -> None:
    """Refuse to begin a session that the disk has no room for."""
    if shutil.disk_usage(path).free < needed:
        raise Refusal(disk_line(path))


def broker_versions() -> dict[str, str]:
    """Return the versions of the brokers that are installed."""
    found = {}
    if (where := shutil.which("mosquitto", path=SEARCH_PATH)) is not None:
        said = subprocess.run([where, "-h"], capture_output=True, text=True, check=False).stdout
        found["mosquitto"] = said.partition("\n")[0].rpartition(" ")[2]
    for directory in Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"):
        found["rabbitmq"] = directory.name.partition("-")[2]
    return found


def minutes_of(store: Store) -> str:
    """Return in words how long running took."""
    spent_s = store.head.get("spent_s")
    return "running time not noted" if spent_s is None else f"{float(spent_s) / 60:.1f} minutes of running"
