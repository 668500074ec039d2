"""From a library's complaint to a PayloadError with an offset; reads error texts, never decodes."""

from __future__ import annotations

import re
from typing import Final

from schemas.errors import PayloadError

_BYTE: Final = re.compile(r"\((?:byte|char) ([0-9]+)\)")
_PATH: Final = re.compile(r"at `\$(.*)`$")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_]+)|\[([0-9]+|\.\.\.)\]")


def refusal(name: str, payload: bytes, error: Exception) -> PayloadError:
    """Return the PayloadError for what msgspec said of a payload.

    Malformed bytes come with an offset; a truncated payload ends at its own length; a value of the wrong
    type comes with a path, of which the offset of its last name in the payload is given.
    """
    text = str(error)
    if isinstance(error, RecursionError):
        return PayloadError(name, 0, "nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return PayloadError(name, error.start, "not UTF-8")
    at_byte = _BYTE.search(text)
    if at_byte is not None:
        return PayloadError(name, min(int(at_byte[1]), len(payload)), text)
    if "truncated" in text:
        return PayloadError(name, len(payload), text)
    path = _PATH.search(text)
    return PayloadError(name, _offset_of(name, payload, path[1]) if path else 0, text)


def _offset_of(name: str, payload: bytes, path: str) -> int:
    """Return where the path's names stand, one after the other; in a list, the first such name."""
    at = 0
    for step in _STEP.finditer(path):
        if step[1]:
            found = payload.find(_as_written(name, step[1].encode()), at)
            at = found if found >= 0 else at
    return at


def _as_written(name: str, key: bytes) -> bytes:
    """Return a map's key as the format writes it, so that `lamp` is not found in `lamps`."""
    if name == "json":
        return b'"' + key + b'"'
    # MessagePack, "str format family": fixstr up to 31 bytes, then str 8.
    return bytes([0xA0 | len(key)]) + key if len(key) < 32 else bytes([0xD9, len(key)]) + key
