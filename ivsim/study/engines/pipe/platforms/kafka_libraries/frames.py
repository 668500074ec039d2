"""Records, answers and arrivals in columns, as the Java classes beside read and write them: little-endian."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Final

from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals

_COUNT: Final = struct.Struct("<i")
ANY_PARTITION: Final = -1
NO_KEY: Final = -1


class Records:
    """Records that are gathered for one call; `frame` empties it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self._stamps: list[int] = []
        self._partitions: list[int] = []
        self._keys: list[int] = []
        self._values: list[int] = []
        self._parts: list[bytes] = []

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, stamp_ms: int, partition: int | None, key: bytes | None, value: bytes) -> None:
        """Add one."""
        self._stamps.append(stamp_ms)
        self._partitions.append(ANY_PARTITION if partition is None else partition)
        if key is None:
            self._keys.append(NO_KEY)
        else:
            self._keys.append(len(key))
            self._parts.append(key)
            self.bytes += len(key)
        self._values.append(len(value))
        self._parts.append(value)
        self.bytes += len(value)

    def frame(self) -> bytes:
        """Return count, timestamps, partitions, lengths of keys and of values, and their bytes in turn."""
        found = b"".join(
            (
                _COUNT.pack(len(self._stamps)),
                array("q", self._stamps).tobytes(),
                array("i", self._partitions).tobytes(),
                array("i", self._keys).tobytes(),
                array("i", self._values).tobytes(),
                *self._parts,
            )
        )
        self._clear()
        return found


def listed(values: Sequence[bytes]) -> bytes:
    """Return count, lengths and bytes."""
    lengths = array("i", map(len, values)).tobytes()
    return b"".join((_COUNT.pack(len(values)), lengths, *values))


class _Reader:
    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self.count: int = _COUNT.unpack_from(frame)[0]
        self._at = _COUNT.size

    def column(self, kind: str) -> array[int]:
        found = array(kind)
        end = self._at + self.count * found.itemsize
        found.frombytes(memoryview(self._frame)[self._at : end])
        self._at = end
        return found

    def values(self, lengths: Sequence[int]) -> list[bytes]:
        frame, at, found = self._frame, self._at, []
        for length in lengths:
            found.append(frame[at : at + length])
            at += length
        return found


def hand_answers(frame: bytes, report: Callable[[int, str | None], None], origin_ms: int) -> int:
    """Report each answer of a frame by its number; return how many there are."""
    reader = _Reader(frame)
    stamps, lengths = reader.column("q"), reader.column("i")
    problems = reader.values(lengths) if any(lengths) else [b""] * reader.count
    for stamp_ms, problem in zip(stamps, problems, strict=True):
        report(stamp_ms - origin_ms, problem.decode() if problem else None)
    return reader.count


def arrivals(frame: bytes, origin_ms: int) -> Arrivals:
    """Return the records of a frame: count, timestamps, partitions, offsets, lengths and bytes of values."""
    reader = _Reader(frame)
    if not reader.count:
        return NONE
    stamps, partitions, offsets = reader.column("q"), reader.column("i"), reader.column("q")
    values = reader.values(reader.column("i"))
    return Arrivals([one - origin_ms for one in stamps], partitions, offsets, values)
