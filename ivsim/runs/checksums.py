"""The checksums of a result's files, so that a later change to one of them shows; `sha256sum -c SHA256SUMS` reads them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from ivsim.runs.directory import RunDirectory
from schemas.errors import Refusal

SUMS: Final = "SHA256SUMS"
# Two changes of a file within a tick of the kernel's clock may have one stamp.
SETTLED_NS: Final = 2_000_000_000


def write_checksums(directory: RunDirectory) -> None:
    """Write SHA256SUMS: a line for every file beside it; logs, which may still be written to, are left out."""
    files = sorted(path for path in directory.path.iterdir() if path.is_file() and path != directory.sums)
    temporary = directory.path / f"{SUMS}.part"
    temporary.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    temporary.replace(directory.sums)


def read_checksums(directory: Path) -> dict[str, str]:
    """Return the checksums of a result's files by name; Refusal where there are none, or a line is none."""
    path, sums = directory / SUMS, {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError:
        raise Refusal(f"{path}: no text") from None
    except OSError:
        raise Refusal(f"{path}: missing; the run did not come to its end, or the file was removed") from None
    for number, line in enumerate(lines, 1):
        found, gap, name = line.partition("  ")
        if not gap or Path(name).name != name:
            raise Refusal(f"{path}: line {number}: not a sha256 sum and a name")
        sums[name] = found
    return sums


def check(directory: Path, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the checksums of a result; Refusal unless these files, None: all, are as the run wrote them."""
    sums = read_checksums(directory)
    for name in sums if names is None else names:
        path = directory / name
        if name not in sums:
            raise Refusal(f"{path}: not in {SUMS}; the run did not write it")
        if not path.is_file():
            raise Refusal(f"{path}: missing; the run wrote one ({SUMS})")
        if digest(path) != sums[name]:
            raise Refusal(f"{path}: changed since the run wrote it ({SUMS})")
    return sums


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal digits; of one that is as it was, they are read once."""
    known = path.stat()
    if time.time_ns() - known.st_mtime_ns < SETTLED_NS:
        return _read(path)
    return _digest(path, known.st_mtime_ns, known.st_size, known.st_ino)


@lru_cache(maxsize=1024)
def _digest(path: Path, *_: int) -> str:
    return _read(path)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
