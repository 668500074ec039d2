"""What each run has opened, noted where a later start can find it; it ends only what a dead run left."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ivsim.testbed.paths import state_dir

RUN_VARIABLE = "IVSIM_RUN"
OWNER_VARIABLE = "IVSIM_OWNER"
STATE_VARIABLE = "IVSIM_STATE_DIR"


def started_at_ticks(pid: int) -> int | None:
    """Return the start time of `pid` in clock ticks since boot; None when no such process lives.

    A process id is used again by the kernel; together with its start time it names one process for good.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class ProcessMark:
    """One process for good: its id, its start time and the boot it belongs to."""

    pid: int
    started_at_ticks: int
    boot: str = field(default_factory=boot_id)

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        ticks = started_at_ticks(pid)
        return None if ticks is None else cls(pid, ticks)

    @classmethod
    def own(cls) -> ProcessMark:
        mark = cls.of(os.getpid())
        assert mark is not None, "the caller lives"
        return mark

    @classmethod
    def parse(cls, text: str, boot: str | None = None) -> ProcessMark | None:
        """Return the mark that `str()` wrote, of this boot unless told; None for anything else."""
        pid, _, ticks = text.partition(":")
        if not pid.isdigit() or not ticks.isdigit():
            return None
        return cls(int(pid), int(ticks), boot or boot_id())

    def alive(self) -> bool:
        return self.boot == boot_id() and started_at_ticks(self.pid) == self.started_at_ticks

    def __str__(self) -> str:
        return f"{self.pid}:{self.started_at_ticks}"


class RunRecord:
    """The notes of one live run: a file of JSON lines, gone once everything in it is closed.

    A note is written before the thing it names is made, where its name is known; a kill between the two
    then leaves a note of nothing, never a thing without a note.
    """

    def __init__(self, run_id: str, directory: Path, kept_logs: Path | None = None) -> None:
        self.run_id = run_id
        self.directory = directory
        # Where a person finds the logs of its processes once it is over.
        self.kept_logs = kept_logs or directory / "logs"
        self.owner = ProcessMark.own()
        self._path = state_dir() / f"{run_id}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Under its name only with its owner in it: a search for leftovers must not take it for a dead run's.
        begun = self._path.with_suffix(".begun")
        self._file = begun.open("x", buffering=1)
        self._note("run", directory=str(directory), started_at_ns=time.time_ns())
        try:
            os.link(begun, self._path)
        except OSError:
            self._file.close()
            raise
        finally:
            begun.unlink()
        self._outer: dict[str, str | None] = {}

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Let what is started inside carry this record's marks, though another one's run goes on."""
        outer = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            _set_environment(outer)

    def __enter__(self) -> Self:
        """Mark this process's environment too, so that what its parts start carries the marks."""
        self._outer = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """Return the marks that every process of this run carries."""
        return {
            RUN_VARIABLE: self.run_id,
            OWNER_VARIABLE: str(self.owner),
            STATE_VARIABLE: str(self._path.parent),
        }

    def process(self, name: str, pid: int) -> None:
        if mark := ProcessMark.of(pid):
            self._note("process", name=name, pid=mark.pid, ticks=mark.started_at_ticks)

    def namespace(self, name: str) -> None:
        self._note("namespace", name=name)

    def device(self, name: str) -> None:
        """Note a network device in the host's own namespace."""
        self._note("device", name=name)

    def scratch(self, directory: Path) -> None:
        """Note a directory that has no use after the run (never the run's results)."""
        self._note("scratch", path=str(directory))

    @contextmanager
    def scratch_within(self, directory: Path) -> Iterator[Path]:
        """Note such a directory, and remove it when the block ends."""
        self.scratch(directory)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def topics(self, bootstrap: str, prefix: str, login: str = "") -> None:
        """Note topics on a Kafka that is not ours, and the path of the file by which one logs in there."""
        self._note("topics", bootstrap=bootstrap, prefix=prefix, login=login)

    def close(self) -> None:
        """Forget the run: its owner has closed everything."""
        _set_environment(self._outer)
        self._outer = {}
        if not self._file.closed:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _note(self, kind: str, **fields: Any) -> None:
        line = {"kind": kind, "owner": str(self.owner), "boot": self.owner.boot, **fields}
        self._file.write(json.dumps(line) + "\n")


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
