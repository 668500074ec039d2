"""A study's results on disk: what is finished stays finished, and each file is whole or absent."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ivsim.runs.versions import environment, versions
from ivsim.study.cells import DONE, FAILED, OPEN, Cell, Kept, Task, twice
from ivsim.study.inputs import copied_in, paths_of
from ivsim.study.model import Study, cells_of
from ivsim.study.sealed import read_sealed, write_sealed
from schemas.errors import Refusal
from schemas.json_files import read_json

# Of the results, not of study.toml. 3: each repetition has a seed of its own, and what is written says if it was changed.
SCHEMA: Final = 3
_HEAD: Final = {"name": str, "quick": bool, "study": dict, "versions": dict, "machine": dict}
FREE_BYTES: Final = 300 << 20


def _write_head(path: Path, head: dict[str, Any]) -> None:
    # The order of the axes is the study's: of its cells, their names and the columns of the report.
    write_sealed(path / "study.json", head)


class Store:
    """The directory of one study's results.

    Attributes:
        head: study.json: the study as it was, quick or not, versions, machine.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self._path = path
        self.head = head

    @property
    def path(self) -> Path:
        return self._path

    @classmethod
    def create(
        cls,
        path: Path,
        name: str,
        study: Study,
        *,
        quick: bool,
        until: dict[str, Any] | None = None,
        twice: str | None = None,
    ) -> Store:
        """Make the directory; Refusal when it has anything in it or cannot be written.

        Args:
            path: where it is.
            name: of the study.
            study: what is to be measured.
            quick: small samples, one repetition.
            until: when blocks are enough, where the study does not say how many there are.
            twice: the cell that alone is measured, as two cells.
        """
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
                **({} if until is None else {"until": until}),
                **({} if twice is None else {"twice": twice}),
                "inputs": copied_in(study.fields(), path),
                **environment(),
                "began_at_ns": time.time_ns(),
            }
            _write_head(path, head)
        return cls(path, head)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open results that are there; Refusal for another version's, a broken, a changed or a missing one."""
        file = path / "study.json"
        if not file.is_file():
            raise Refusal(f"{file}: missing; this is no directory of study results")
        found = read_json(file)
        if found.get("schema") != SCHEMA:
            by = found.get("versions") if isinstance(found.get("versions"), dict) else {}
            raise Refusal(
                f"{file}: schema {found.get('schema')!r}: this ivsim reads {SCHEMA}; report it with the ivsim that made"
                f" it ({(by or {}).get('ivsim', 'unknown')}), or run the study again; nothing was changed"
            )
        head = read_sealed(file)
        for key, kind in _HEAD.items():
            if not isinstance(head.get(key), kind):
                raise Refusal(f"{file}: {key}: {kind.__name__} is wanted; nothing was changed")
        try:
            Study.model_validate(head["study"])
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in ("study", *first["loc"]))
            raise Refusal(f"{file}: {key}: {first['msg']}; nothing was changed") from None
        return cls(path, head)

    @cached_property
    def _begun(self) -> Study:
        """The study as it was begun, checked once: that takes tens of milliseconds, and a report asks for each repetition."""
        return Study.model_validate(self.head["study"])

    @property
    def study(self) -> Study:
        """The study as it was begun; where blocks go on until intervals are narrow, it has as many as have begun."""
        return (
            self._begun
            if self.until is None
            else self._begun.model_copy(update={"repetitions": self.until["blocks"]})
        )

    @property
    def until(self) -> dict[str, Any] | None:
        """Return when blocks are enough: the width wanted, blocks begun, whether they have reached it, and the widest interval."""
        return self.head.get("until")

    def keep_until(self, found: dict[str, Any]) -> None:
        self.head["until"] = found
        _write_head(self.path, self.head)

    @property
    def quick(self) -> bool:
        return bool(self.head["quick"])

    @property
    def name(self) -> str:
        return str(self.head["name"])

    def cells(self) -> list[Cell]:
        """Return the cells of the study, with the files that it was begun with; Refusal when one of these was changed."""
        # An earlier version's results do not hold them.
        paths = paths_of(self.head.get("inputs", {}), self.path)
        found = cells_of(self.study, str(self.path / "study.json"), quick=self.quick, paths=paths)
        return found if self.twice is None else twice(found, self.twice)

    @property
    def twice(self) -> str | None:
        """Return the cell that alone is measured, as two cells; None where all are, once each."""
        return self.head.get("twice")

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
        """Return what is known of a task; an unfinished one is open. Refusal for a state that was changed."""
        directory = self.directory(task)
        file = directory / "state.json"
        if not file.exists():
            return Kept(task, OPEN, None, {}, directory)
        found = read_sealed(file)
        if found["seed"] != task.seed:
            raise Refusal(
                f"{file}: seed {found['seed']}: this repetition's is {task.seed}; nothing was changed"
            )
        # An earlier version did not say.
        invalid, load = bool(found.get("invalid")), found.get("load_average")
        return Kept(
            task, found["state"], found["reason"], found["figures"], directory, found["seed"], invalid, load
        )

    def all_kept(self, cells: list[Cell]) -> list[Kept]:
        """Return every repetition of every cell."""
        return [
            self.kept(Task.of(cell, n))
            for cell in cells
            for n in range(1, self.study.repetitions_of(cell, quick=self.quick) + 1)
        ]

    def begin(self, task: Task) -> Path:
        """Return the task's directory, empty."""
        directory = self.directory(task)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def begin_session(self) -> tuple[int, Path]:
        """Return the number and the new directory of a session, for what is of no cell alone."""
        number = len(list((self.path / "sessions").glob("*"))) + 1
        directory = self.path / "sessions" / f"{number:03d}"
        directory.mkdir(parents=True)
        return number, directory

    def finish(self, task: Task, figures: dict[str, Any]) -> None:
        """Keep a task as done; written last, so that half a task is never taken for one."""
        self._keep(task, DONE, None, figures)

    def fail(self, task: Task, reason: str, *, invalid: bool = False) -> None:
        """Keep a task as failed, with its reason; `invalid` where it was measured, and its figures are."""
        self.directory(task).mkdir(parents=True, exist_ok=True)
        self._keep(task, FAILED, reason, {}, invalid=invalid)

    def _keep(
        self, task: Task, state: str, reason: str | None, figures: dict[str, Any], *, invalid: bool = False
    ) -> None:
        found = {
            "state": state,
            "seed": task.seed,
            "reason": reason,
            "invalid": invalid,
            "load_average": os.getloadavg()[0],
            "figures": figures,
        }
        write_sealed(self.directory(task) / "state.json", found)


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


def minutes_of(store: Store) -> str:
    """Return in words how long running took."""
    spent_s = store.head.get("spent_s")
    return "running time not noted" if spent_s is None else f"{float(spent_s) / 60:.1f} minutes of running"
