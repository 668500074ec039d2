"""The null platform: files that producers append to and consumers read; what is measured over it is the engine.

A partition has one file for each producer. A record is 12 bytes (its number and the length of its value) and the
value. Nothing is compressed, repeated or waited for; there is no process between.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from ivsim.study.engines.pipe.platforms.base import (
    LOOPBACK,
    Arrivals,
    Host,
    OpenPlatform,
    Place,
    Platform,
    Refused,
    Report,
)
from ivsim.testbed.registry import RunRecord

HEAD: Final = struct.Struct("<QI")
WRITE_BYTES: Final = 65_536
WRITE_RECORDS: Final = 1_000
READ_BYTES: Final = 1_048_576
IDLE_S: Final = 0.000_5
RECORD_BYTES: Final = 16_777_216


class Null(Platform):
    """Files; see the module."""

    name: ClassVar[str] = "null"
    summary: ClassVar[str] = "files without a platform between: what the engine itself costs"
    settings: ClassVar[frozenset[str]] = frozenset()
    clients: ClassVar[str] = __name__
    record_bytes: ClassVar[int] = RECORD_BYTES

    def acknowledges(self, settings: Mapping[str, Any]) -> bool:
        del settings
        return True

    @contextmanager
    def open(
        self, record: RunRecord, work: Path, brokers: int = 1, host: Host = LOOPBACK
    ) -> Iterator[OpenPlatform]:
        del brokers, host
        with record.scratch_within(work / "null") as folder:
            folder.mkdir(parents=True)
            yield Files(folder)


class Files:
    """A folder for each measurement."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, name: str, settings: Mapping[str, Any]) -> Place:
        folder = self._folder / name
        folder.mkdir()
        for partition in range(settings["partitions"]):
            for producer in range(settings["producers"]):
                (folder / _file(partition, producer)).touch()
        return {
            "folder": str(folder),
            "partitions": settings["partitions"],
            "producers": settings["producers"],
        }

    def ends(self, place: Place) -> dict[int, int]:
        return {
            partition: sum(_count(path) for path in _paths(place, partition))
            for partition in range(place["partitions"])
        }

    def stored_bytes(self, place: Place) -> int | None:
        return sum(path.stat().st_size for path in Path(place["folder"]).iterdir())

    def pids(self) -> Mapping[str, int]:
        return {}

    def check(self) -> None:
        """Nothing runs that could end."""

    def kill(self, index: int) -> None:
        """Refuse: it has no brokers, and `check` lets no cell ask for it."""
        raise RuntimeError(f"the platform null has no broker {index} to kill")

    def back(self, place: Place) -> bool:
        """Files do not go away."""
        del place
        return True

    def clear(self, place: Place) -> None:
        shutil.rmtree(place["folder"], ignore_errors=True)


def _file(partition: int, producer: int) -> str:
    return f"{partition}-{producer}.records"


def _paths(place: Place, partition: int) -> list[Path]:
    return [Path(place["folder"]) / _file(partition, producer) for producer in range(place["producers"])]


def _count(path: Path) -> int:
    return _whole(path)[0]


def _whole(path: Path) -> tuple[int, int]:
    """Return how many whole records a file has, and their bytes: a kill may have cut the last one short."""
    size, at, count = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        while at + HEAD.size <= size:
            file.seek(at)
            end = at + HEAD.size + HEAD.unpack(file.read(HEAD.size))[1]
            if end > size:
                break
            at = end
            count += 1
    return count, at


class FileSender:
    """Appends to its own file of each partition, in turn; a record counts as taken once it is written."""

    def __init__(self, place: Place, index: int, report: Report) -> None:
        self._place = place
        self._index = index
        self._report = report
        self._files: list[int] = []
        self._parts: list[list[bytes]] = []
        self._waiting: list[int] = []
        self._bytes = 0
        self._next = 0
        self._wire_bytes = 0
        self._writes = 0
        self._records = 0

    def open(self) -> None:
        for partition in range(self._place["partitions"]):
            path = Path(self._place["folder"]) / _file(partition, self._index)
            if _whole(path)[1] != path.stat().st_size:
                # Who reads along may have the piece already: there is no going on behind it.
                raise RuntimeError(f"{path.name}: cut short within a record by a kill; measure again")
            self._files.append(os.open(path, os.O_WRONLY | os.O_APPEND))
            self._parts.append([])

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del key, due_at_ns
        size = len(value)
        if size > RECORD_BYTES:
            raise Refused(f"{size} B: at most {RECORD_BYTES} B")
        partition = self._next
        self._parts[partition] += (HEAD.pack(number, size), value)
        self._next = partition + 1 if partition + 1 < len(self._parts) else 0
        self._waiting.append(number)
        self._bytes += size
        if self._bytes >= WRITE_BYTES or len(self._waiting) >= WRITE_RECORDS:
            self._write()

    def poll(self, timeout_s: float) -> None:
        if self._waiting:
            self._write()
        elif timeout_s > 0:
            time.sleep(timeout_s)

    def _write(self) -> None:
        for file, parts in zip(self._files, self._parts, strict=True):
            if parts:
                whole = b"".join(parts)
                parts.clear()
                self._wire_bytes += len(whole)
                self._writes += 1
                while whole:
                    whole = whole[os.write(file, whole) :]
        waiting, self._waiting = self._waiting, []
        self._records += len(waiting)
        self._bytes = 0
        for number in waiting:
            self._report(number, None)

    def flush(self, timeout_s: float) -> int:
        del timeout_s
        self._write()
        return 0

    def statistics(self) -> Mapping[str, float | None]:
        return {"wire_bytes": self._wire_bytes, "batches": self._writes, "batch_records": self._records}

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())


class _Columns(NamedTuple):
    """Arrivals while they are collected."""

    number: list[int]
    partition: list[int]
    offset: list[int]
    value: list[bytes]


class FileReceiver:
    """Reads the files of some partitions, from their beginning, as they grow."""

    def __init__(self, place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> None:
        self._place = place
        self._partitions = partitions
        self._most: int = settings["take_records"]
        self._full: bool = settings["take"] == "full"
        self._wait_s: float = settings["take_ms"] / 1_000
        # partition, file, what was read of it and not yet given out
        self._files: list[tuple[int, int, bytearray]] = []
        self._offsets = dict.fromkeys(partitions, 0)
        self._turn = 0

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        """Begin at the beginning, whatever was read before: nobody keeps how far that was."""
        del resumed
        for partition in self._partitions:
            for path in _paths(self._place, partition):
                self._files.append((partition, os.open(path, os.O_RDONLY), bytearray()))
        return dict(self._offsets)

    def poll(self) -> Arrivals:
        until_s = time.monotonic() + self._wait_s
        found = _Columns([], [], [], [])
        while True:
            for _ in self._files:
                self._turn = (self._turn + 1) % len(self._files)
                self._read(self._files[self._turn], found)
                if len(found.number) >= self._most:
                    return Arrivals(*found)
            if (found.number and not self._full) or time.monotonic() >= until_s:
                return Arrivals(*found)
            time.sleep(
                IDLE_S
            )  # nobody tells a reader that a file has grown; what it waits is within what is measured

    def _read(self, source: tuple[int, int, bytearray], found: _Columns) -> None:
        partition, file, buffer = source
        if len(buffer) < READ_BYTES:
            buffer += os.read(file, READ_BYTES)
        numbers: list[int] = []
        values: list[bytes] = []
        at, end = 0, len(buffer)
        left = self._most - len(found.number)
        while left and end - at >= HEAD.size:
            number, size = HEAD.unpack_from(buffer, at)
            begin = at + HEAD.size
            if end - begin < size:
                break
            at = begin + size
            numbers.append(number)
            values.append(bytes(buffer[begin:at]))
            left -= 1
        del buffer[:at]
        offset = self._offsets[partition]
        self._offsets[partition] = offset + len(numbers)
        found.number.extend(numbers)
        found.partition.extend([partition] * len(numbers))
        found.offset.extend(range(offset, offset + len(numbers)))
        found.value.extend(values)

    def acknowledge(self, partition: int, offset: int) -> None:
        """Nobody asks how far a file is read."""

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop()[1])


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> FileSender:
    """Return the producer's end."""
    del settings
    return FileSender(place, index, report)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> FileReceiver:
    """Return the consumer's end."""
    return FileReceiver(place, settings, partitions)
