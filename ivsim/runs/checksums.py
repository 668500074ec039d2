"""The checksums of a result's files, so that a later change to one of them shows; `sha256sum -c SHA256SUMS` reads them."""

from __future__ import annotations

import hashlib

from ivsim.runs.directory import RunDirectory


def write_checksums(directory: RunDirectory) -> None:
    """Write SHA256SUMS: a line for every file beside it; logs, which may still be written to, are left out."""
    files = sorted(path for path in directory.path.iterdir() if path.is_file() and path != directory.sums)
    lines = []
    for path in files:
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    temporary = directory.path / f"{directory.sums.name}.part"
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(directory.sums)
