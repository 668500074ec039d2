"""Columns of whole numbers that a client's process writes; those of a client that is to be killed outlive it.

A process that ends by itself writes its columns when it is done. One that is killed cannot: what it had sent or read
until then would be forgotten, and the ledger would not close. Its columns lie in a file that is mapped into its memory
(a producer, who knows how many records are due), or are written after every call (a consumer, who does not); the kernel
keeps both whatever becomes of the process.
"""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

ITEM_BYTES = 8


class MappedColumn:
    """One column in a mapped file; it does what a producer asks of an `array`."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._count = 0

    def append(self, value: int) -> None:
        self._view[self._count] = value
        self._count += 1

    def __setitem__(self, place: int, value: int) -> None:
        self._view[place] = value

    def __len__(self) -> int:
        return self._count

    def frombytes(self, room: bytes) -> None:
        """Make no room: the file has it, and it is 0."""

    def begin_at(self, count: int) -> None:
        """Go on behind so many values."""
        self._count = count

    def filled(self) -> int:
        """Return how many values there are before the first 0."""
        found = np.frombuffer(self._view, np.int64)
        zeros = np.flatnonzero(found == 0)
        return int(zeros[0]) if zeros.size else found.size


class MappedColumns:
    """Columns of equal length, one behind the other, in a file that the next process of the same path goes on with.

    Args:
        path: of the file; made where it is not there.
        names: of the columns.
        most: values that a column can hold.
        last: the column that is written last of a row: the rows before its first 0 are whole.
    """

    def __init__(self, path: Path, names: Sequence[str], most: int, last: str) -> None:
        self._bytes = most * ITEM_BYTES
        with path.open("a+b") as file:
            file.truncate(len(names) * self._bytes)
            self._map = mmap.mmap(file.fileno(), len(names) * self._bytes)
        every = memoryview(self._map).cast("q")
        self.columns = {
            name: MappedColumn(every[place * most : (place + 1) * most]) for place, name in enumerate(names)
        }
        whole = self.columns[last].filled()
        for column in self.columns.values():
            column.begin_at(whole)


def mapped(path: Path, columns: int, count: int) -> npt.NDArray[np.int64]:
    """Return the first values of columns that were mapped, (columns, count)."""
    return np.fromfile(path, np.int64).reshape(columns, -1)[:, :count]


class Journal:
    """Rows that are written as they come; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def write(self, columns: Iterable[Sequence[int]]) -> None:
        """Write a row for each place of the columns."""
        rows = memoryview(np.array(list(columns), np.int64).T.tobytes())
        while rows:
            rows = rows[os.write(self._file, rows) :]


def journaled(path: Path, columns: int) -> npt.NDArray[np.int64]:
    """Return the rows of a journal, (columns, rows); one that a kill has cut short was not written."""
    found = np.fromfile(path, np.int64)
    rows = found.size // columns
    return found[: rows * columns].reshape(rows, columns).T


def write(path: Path, columns: Mapping[str, array[int]]) -> None:
    """Write columns one behind the other."""
    with path.open("wb") as file:
        for column in columns.values():
            column.tofile(file)
