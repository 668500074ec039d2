"""Where a Protobuf payload breaks: a plain scan, for error messages only (the library names no offset)."""

from __future__ import annotations

from typing import Final

from schemas.layout import LAYOUT, ROOT, Field

_FIXED: Final = {1: 8, 5: 4}  # wire type -> width (protobuf.dev, encoding)


class _Broken(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def fault_offset(payload: bytes) -> int:
    """Return the offset of the first field that is broken, or the payload's length when none is found."""
    try:
        _scan(payload, 0, len(payload), ROOT)
    except _Broken as fault:
        return fault.offset
    return len(payload)


def _scan(payload: bytes, at: int, end: int, name: str | None) -> None:
    fields = {f.number: f for f in LAYOUT.messages[name]} if name else {}
    while at < end:
        start = at
        tag, at = _varint(payload, at, end)
        kind, field = tag & 7, fields.get(tag >> 3)
        if tag >> 3 == 0 or kind not in {0, 1, 2, 5}:
            raise _Broken(start)
        if kind == 0:
            _, at = _varint(payload, at, end)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            length, at = _varint(payload, at, end)
            if at + length <= end:
                _content(payload, at, at + length, field)
            at += length
        if at > end:
            raise _Broken(start)


def _content(payload: bytes, at: int, end: int, field: Field | None) -> None:
    if field is not None and field.kind == "message":
        _scan(payload, at, end, field.type_name)
    elif field is not None and field.kind == "string":
        try:
            payload[at:end].decode()
        except UnicodeDecodeError as error:
            raise _Broken(at + error.start) from None


def _varint(payload: bytes, at: int, end: int) -> tuple[int, int]:
    number = 0
    for k in range(10):
        if at + k >= end:
            raise _Broken(at)
        byte = payload[at + k]
        number |= (byte & 127) << (7 * k)
        if byte < 128:
            return number, at + k + 1
    raise _Broken(at)
