"""A column of whole numbers that grows for as long as a run lasts, in the kernel's page cache and not in this process's memory."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

_ITEM_BYTES: Final = 8
# The file grows by so much: 131,072 numbers.
_STEP_BYTES: Final = 1 << 20


class LongColumn:
    """Numbers of 64 bits behind each other in an unlinked file; what an `array("q")` does, as far as it is asked here.

    The file has no name: it goes with the process, however that ends. Pages that nobody touches any more are written to
    the disk and given up when memory is short.

    Args:
        directory: on whose file system it lies; None: the one for temporary files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._count = 0
        self._room = _STEP_BYTES // _ITEM_BYTES
        with tempfile.TemporaryFile(dir=directory) as file:
            file.truncate(_STEP_BYTES)
            self._map = mmap.mmap(file.fileno(), _STEP_BYTES)  # it keeps the file, and lets it grow
        self._view = memoryview(self._map).cast("q")

    def append(self, value: int) -> None:
        if self._count == self._room:
            self._grow()
        self._view[self._count] = value
        self._count += 1

    def extend_zeros(self, count: int) -> None:
        """Append zeros: a file is full of them."""
        self._count += count
        while self._count > self._room:
            self._grow()

    def _grow(self) -> None:
        size = self._room * _ITEM_BYTES + _STEP_BYTES
        self._view.release()
        self._map.resize(size)
        self._view = memoryview(self._map).cast("q")
        self._room = size // _ITEM_BYTES

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> int:
        if not 0 <= place < self._count:
            raise IndexError(place)
        value: int = self._view[place]
        return value

    def __setitem__(self, place: int, value: int) -> None:
        self._view[place] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self._view[: self._count].tolist())

    def numbers(self) -> npt.NDArray[np.int64]:
        """Return a copy of them."""
        return np.frombuffer(self._view[: self._count], np.int64).copy()
