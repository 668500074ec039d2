"""Keys that a vehicle shares with the gateway alone: one JSON file, vehicle id to hexadecimal digits."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Final

from schemas.errors import Refusal

KEY_BYTES: Final = 16


@lru_cache(maxsize=4)
def shared_keys(file: str) -> dict[str, bytes]:
    """Return the key of each vehicle. Refusal names the file and the vehicle whose key is none."""
    try:
        found = json.loads(Path(file).read_text())
    except OSError as error:
        raise Refusal(f"keys.file {file}: {error.strerror}") from error
    except ValueError as error:
        raise Refusal(f"keys.file {file}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refusal(f"keys.file {file}: write an object of vehicle ids and hexadecimal keys")
    return {name: _key(file, name, digits) for name, digits in found.items()}


def shared_key(file: str, name: str) -> bytes:
    """Return the key of one vehicle. Refusal when it has none."""
    key = shared_keys(file).get(name)
    if key is None:
        raise Refusal(f"keys.file {file}: no key for {name}")
    return key


def _key(file: str, name: str, digits: object) -> bytes:
    try:
        key = bytes.fromhex(digits) if isinstance(digits, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise Refusal(f"keys.file {file}: {name}: write {2 * KEY_BYTES} hexadecimal digits")
    return key
