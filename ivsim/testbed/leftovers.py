"""What dead runs have left, found by notes and marks and removed when asked; live runs are never touched."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException

from ivsim.testbed.kafka_admin import delete_topics, topics_of
from ivsim.testbed.paths import state_dir
from ivsim.testbed.registry import OWNER_VARIABLE, RUN_VARIABLE, STATE_VARIABLE, ProcessMark
from schemas.errors import Refusal

NAMESPACES = Path("/run/netns")
TERM_TIMEOUT_S = 5.0
TOPICS_TIMEOUT_S = 5.0  # until Kafka says which topics it has, and has deleted some
PASSES = 3
EXEC_TIMEOUT_S = 1.0  # until a process that is within exec shows its environment
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in include/linux/sched.h


class Topics(NamedTuple):
    """Topics of a run on a Kafka that is not ours.

    Attributes:
        login: path of the file by which one logs in; "" without.
    """

    bootstrap: str
    prefix: str
    login: str


@dataclass
class Leftover:
    """Everything that one dead run has left; paths and names of things that exist now.

    Attributes:
        prefixes: how the names of its namespaces begin; a link makes more of them than the run has noted.
        topics: address of a Kafka that is not ours, and how the names of the run's topics there begin.
    """

    run_id: str
    notes: Path | None = None
    processes: dict[ProcessMark, str] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    scratch: set[Path] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    topics: set[Topics] = field(default_factory=set)

    def lines(self) -> list[str]:
        """Return one line per thing."""
        return [
            *(f"process {mark.pid} ({name}) of run {self.run_id}" for mark, name in self.processes.items()),
            *(f"namespace {name}" for name in sorted(self.namespaces)),
            *(f"device {name}" for name in sorted(self.devices)),
            *(f"directory {path}" for path in sorted(self.scratch)),
            *(f"topics {one.prefix}* on Kafka {one.bootstrap}" for one in sorted(self.topics)),
            *([f"notes of run {self.run_id}"] if self.notes else []),
        ]


def find() -> list[Leftover]:
    """Return what dead runs have left on this machine, as far as this user can see it."""
    found: dict[str, Leftover] = {}
    for path in sorted(state_dir().glob("*.jsonl")):
        if (leftover := _from_notes(path)) is not None:
            found[leftover.run_id] = leftover
    for mark, run_id, name in _marked_processes():
        found.setdefault(run_id, Leftover(run_id, prefixes={f"ivsim-{run_id}-"})).processes[mark] = name
    for leftover in found.values():
        leftover.namespaces |= {n for n in namespaces() if n.startswith(tuple(leftover.prefixes))}
        for namespace in leftover.namespaces:
            leftover.processes |= _processes_inside(namespace)
    return list(found.values())


def clean(leftovers: list[Leftover]) -> list[str]:
    """Remove `leftovers` in the reverse order of their making; return a line for each thing that stays."""
    for leftover in leftovers:
        _end_all(leftover)
        for name in leftover.namespaces:
            _ip("netns", "delete", name)
        for name in leftover.devices:
            _ip("link", "delete", name)
        for path in leftover.scratch:
            shutil.rmtree(path, ignore_errors=True)
        for one in leftover.topics:
            with contextlib.suppress(Refusal):  # its login has gone: it stays, and is named
                delete_topics(*one)
    stays: list[str] = []
    for leftover in leftovers:
        remaining = _remaining(leftover)
        stays += remaining
        if leftover.notes is not None and not remaining:
            leftover.notes.unlink(missing_ok=True)
    return stays


def end_processes(leftovers: list[Leftover], patience_s: float) -> None:
    """End the processes of dead runs that do not end by themselves in that time, and leave all else of them.

    Their owner's death has told them to: a second signal would have them go without their last words.
    """
    until_s = time.monotonic() + patience_s
    marks = [mark for leftover in leftovers for mark in leftover.processes]
    while any(mark.alive() for mark in marks) and time.monotonic() < until_s:
        time.sleep(0.05)  # they are nobody's children any more: no end of theirs is told
    for leftover in leftovers:
        _end_all(leftover)


def owner_lives(run_id: str) -> bool:
    """Say whether the process of a run lives, by the notes that it keeps or the marks that its parts carry."""
    notes = state_dir() / f"{run_id}.jsonl"
    if notes.is_file() and _from_notes(notes) is None:
        return True
    owners = (
        ProcessMark.parse(environment.get(OWNER_VARIABLE, ""))
        for _, environment in _environments()
        if environment.get(RUN_VARIABLE) == run_id
    )
    return any(owner is not None and owner.alive() for owner in owners)


def namespaces() -> list[str]:
    """Return the names of the named network namespaces."""
    return sorted(path.name for path in NAMESPACES.iterdir()) if NAMESPACES.is_dir() else []


def _from_notes(path: Path) -> Leftover | None:
    try:
        lines = [_note(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return None  # its run has ended meanwhile
    first = next((line for line in lines if line), {})
    owner = ProcessMark.parse(first.get("owner", ""), first.get("boot"))
    if owner is not None and owner.alive():
        return None
    leftover = Leftover(path.stem, notes=path, prefixes={f"ivsim-{path.stem}-"})
    for line in lines:
        _add(leftover, line)
    return leftover


def _note(line: str) -> dict[str, str]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}  # the run was killed while it wrote this line
    return {key: str(content) for key, content in value.items()}


def _add(leftover: Leftover, note: dict[str, str]) -> None:
    kind, name = note.get("kind"), note.get("name", "")
    if kind == "process":
        mark = ProcessMark.parse(f"{note['pid']}:{note['ticks']}", note.get("boot"))
        if mark is not None and mark.alive():
            leftover.processes[mark] = name
    elif kind == "namespace":
        leftover.prefixes.add(name.rpartition("-")[0] + "-")
    elif kind == "device" and Path("/sys/class/net", name).exists():
        leftover.devices.add(name)
    elif kind == "scratch" and Path(note["path"]).exists():
        leftover.scratch.add(Path(note["path"]))
    elif kind == "topics":
        one = Topics(note["bootstrap"], note["prefix"], note.get("login", ""))
        if _keeps(one):
            leftover.topics.add(one)


def _keeps(topics: Topics) -> bool:
    """Return whether a Kafka has such topics still; one that does not answer, or let us in, may have them."""
    try:
        return bool(topics_of(topics.bootstrap, topics.prefix, TOPICS_TIMEOUT_S, topics.login))
    except (KafkaException, Refusal):
        return True


def _gone(topics: Topics) -> bool:
    """Wait until the topics are gone: Kafka answers a deletion before it has made it."""
    deadline_s = time.monotonic() + TOPICS_TIMEOUT_S
    while _keeps(topics):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True


def _marked_processes() -> Iterator[tuple[ProcessMark, str, str]]:
    """Yield (process, run id, command) of live processes whose marks name an owner that is dead."""
    for mark, environment in _environments():
        owner = ProcessMark.parse(environment.get(OWNER_VARIABLE, ""))
        if owner is None or owner.alive() or environment.get(STATE_VARIABLE) != str(state_dir()):
            continue
        yield mark, environment.get(RUN_VARIABLE, "?"), command_name(mark.pid)


def _environments() -> Iterator[tuple[ProcessMark, dict[str, str]]]:
    deadline_s = time.monotonic() + EXEC_TIMEOUT_S
    for pid in _pids():
        raw = _environment(pid, deadline_s)
        if OWNER_VARIABLE.encode() in raw and (mark := ProcessMark.of(pid)) is not None:
            pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
            yield mark, {key: value for key, _, value in pairs}


def _environment(pid: int, deadline_s: float) -> bytes:
    """Return the environment of `pid`; empty if it has none, is gone, or is another user's.

    Between the old memory of a process and its new stack, exec(2) shows no environment. Popen returns as
    early as that, so a run that is killed then leaves a process whose mark is to be waited for.
    """
    path = Path(f"/proc/{pid}/environ")
    try:
        raw, within_exec = path.read_bytes(), True
        while not raw and within_exec and time.monotonic() < deadline_s:
            if within_exec := _within_exec(pid):
                time.sleep(0.001)  # the kernel tells nobody when exec(2) has laid it
            raw = path.read_bytes()  # once more behind its end: that may have come between the two looks
    except OSError:
        return b""
    return raw


def _within_exec(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    state, flags, environment_end = fields[0], int(fields[6]), int(fields[48])
    return environment_end == 0 and state not in "ZX" and not flags & _KERNEL_THREAD


def _processes_inside(namespace: str) -> dict[ProcessMark, str]:
    inode = (NAMESPACES / namespace).stat().st_ino
    inside = {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode and (mark := ProcessMark.of(pid)):
                inside[mark] = command_name(pid)
    return inside


def _pids() -> Iterator[int]:
    names = (path.name for path in Path("/proc").iterdir())
    return (int(name) for name in names if name.isdigit() and int(name) != os.getpid())


def command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def _end_all(leftover: Leftover) -> None:
    # A process may have started another between the search and its end: search again.
    for _ in range(PASSES):
        _end(list(leftover.processes))
        young = {mark: name for mark, run_id, name in _marked_processes() if run_id == leftover.run_id}
        if not young:
            return
        leftover.processes |= young


def _end(marks: list[ProcessMark]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for mark in marks:
            if mark.alive():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(mark.pid, number)
        deadline_s = time.monotonic() + TERM_TIMEOUT_S
        while any(mark.alive() for mark in marks) and time.monotonic() < deadline_s:
            time.sleep(0.02)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=False, capture_output=True)


def _remaining(leftover: Leftover) -> list[str]:
    left = Leftover(
        leftover.run_id,
        processes={mark: name for mark, name in leftover.processes.items() if mark.alive()},
        namespaces=leftover.namespaces & set(namespaces()),
        devices={name for name in leftover.devices if Path("/sys/class/net", name).exists()},
        scratch={path for path in leftover.scratch if path.exists()},
        topics={one for one in leftover.topics if not _gone(one)},
    )
    return left.lines()
