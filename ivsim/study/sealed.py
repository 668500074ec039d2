"""Files of results that must not change: JSON with a digest of itself, and tables; what was damaged is refused by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import Refusal
from schemas.json_files import read_json, write_json

SEAL: Final = "sha256"


def _digest(value: dict[str, Any]) -> str:
    rest = {key: item for key, item in value.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all, with the digest of its content; keys stay in their order."""
    plain = json.loads(json.dumps(value, default=str))
    write_json(path, {**plain, SEAL: _digest(plain)}, sort_keys=False)


def read_sealed(path: Path) -> dict[str, Any]:
    """Return what `write_sealed` wrote, without the digest; Refusal names the file that is damaged or was changed."""
    found = read_json(path)
    if SEAL not in found:
        raise Refusal(f"{path}: no {SEAL}: not as this ivsim wrote it; nothing was changed")
    if found[SEAL] != _digest(found):
        raise Refusal(f"{path}: changed since it was written ({SEAL} differs); nothing was changed")
    return {key: item for key, item in found.items() if key != SEAL}


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a Parquet table; Refusal names the file that is missing, truncated or without a column."""
    try:
        return pq.ParquetFile(path).read(columns=None if columns is None else _there(path, columns))
    except FileNotFoundError:
        raise Refusal(f"{path}: missing; its repetition has to be measured again") from None
    except (pa.ArrowException, OSError) as error:
        raise Refusal(f"{path}: no whole Parquet file: {str(error).partition(chr(10))[0]}") from None


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Refuse a table by its name when a column is asked for that it has not."""
    try:
        yield
    except KeyError as error:
        raise Refusal(f"{path}: {error.args[0]}: made by an older ivsim; measure it again") from None


def _there(path: Path, columns: Sequence[str]) -> list[str]:
    names = set(pq.read_schema(path).names)
    if missing := [name for name in columns if name not in names]:
        raise Refusal(f"{path}: no column {', '.join(missing)}: made by an older ivsim; measure it again")
    return list(columns)
