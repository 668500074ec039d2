"""The small files of a checkpoint that are ours, wherever it is: in a directory of this machine, or at a URI that Spark reaches."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from schemas.last_words import java_cause_of
from twin import jvm
from twin.place import PROBE, Place

_P = ParamSpec("_P")
_R = TypeVar("_R")
_PROBE: Final = "ivsim.clock"
_ATTEMPTS: Final = 5
# A file was written anew, or removed, between two questions about it: S3A asks for an object's ETag, then for that object.
_CHANGED: Final = re.compile(r"Status Code: 412|RemoteFileChangedException|FileNotFoundException")


class Files(Protocol):
    """The small files of a place, by name; each call may raise OSError."""

    def empty(self) -> bool:
        """Return whether nothing is there, nor the place itself."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None where it is not there."""
        ...

    def write(self, name: str, body: bytes) -> None:
        """Put a file there, in the place of one of its name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that it has; nothing where it is not there."""
        ...

    def age_s(self, name: str) -> float | None:
        """Return how long ago a file was written, by the clock that stamps files there; None where it is not there."""
        ...


class LocalFiles:
    """A directory of this machine."""

    def __init__(self, place: Place) -> None:
        self._directory = Path(place)

    def empty(self) -> bool:
        return not self._directory.exists() or not any(self._directory.iterdir())

    def read(self, name: str) -> bytes | None:
        path = self._directory / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, body: bytes) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        begun = self._directory / f".{name}"
        begun.write_bytes(body)
        begun.replace(self._directory / name)

    def remove(self, name: str) -> None:
        path = self._directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def age_s(self, name: str) -> float | None:
        path = self._directory / name
        return time.time() - path.stat().st_mtime if path.exists() else None


def _told(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a call raise OSError, with what Java threw in one line, where it raised Java's."""

    @wraps(call)
    def told(*args: _P.args, **words: _P.kwargs) -> _R:
        try:
            return call(*args, **words)
        except Py4JError as error:
            thrown = java_cause_of(str(error)) or str(error).partition("\n")[0]
            raise OSError(thrown[:300]) from error

    return told


def _while_it_changes(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a call ask again where the file that it reads has changed meanwhile: a lease does so every few seconds."""

    @wraps(call)
    def asked(*args: _P.args, **words: _P.kwargs) -> _R:
        for _ in range(_ATTEMPTS - 1):
            try:
                return call(*args, **words)
            except Py4JError as error:
                if not _CHANGED.search(str(error)):
                    raise
        return call(*args, **words)

    return asked


class SparkFiles:
    """A URI, reached as Spark reaches it: by Hadoop's file system of that scheme, with the session's settings."""

    def __init__(self, session: SparkSession, place: Place) -> None:
        self._session, self._place = session, place

    @_told
    def empty(self) -> bool:
        files, path = self._at("")
        if not files.exists(path):
            return True
        # Who may put objects and not delete them has left those that were put to try the place.
        return all(str(status.getPath().getName()).startswith(PROBE) for status in files.listStatus(path))

    @_told
    @_while_it_changes
    def read(self, name: str) -> bytes | None:
        files, path = self._at(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    @_told
    def write(self, name: str, body: bytes) -> None:
        files, path = self._at(name)
        stream = files.create(path, True)
        try:
            stream.write(bytearray(body))
        finally:
            stream.close()

    @_told
    def remove(self, name: str) -> None:
        files, path = self._at(name)
        files.delete(path, True)

    @_told
    @_while_it_changes
    def age_s(self, name: str) -> float | None:
        files, path = self._at(name)
        if not files.exists(path):
            return None
        # Two stamps of one clock: this machine's may be any.
        self.write(_PROBE, b"")
        probe, written = self._at(_PROBE)
        now_ms = probe.getFileStatus(written).getModificationTime()
        return float(now_ms - files.getFileStatus(path).getModificationTime()) / 1000

    def _at(self, name: str) -> tuple[Any, Any]:
        return jvm.hadoop(self._session, self._place / name if name else self._place)


def files_of(session: SparkSession | None, place: Place) -> Files:
    """Return the files of a place; a remote one needs the session."""
    if not place.remote:
        return LocalFiles(place)
    assert session is not None, "a URI is reached by Spark"
    return SparkFiles(session, place)
