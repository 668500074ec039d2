"""Scalars as bytes and text, for the generated encoders; knows no message."""

from __future__ import annotations

import json
import math
from typing import Any, Final


def varint(number: int) -> bytes:
    """Return `number` (0 to 2^64 - 1) in base 128, least significant group first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """Return a signed 64-bit `number` as Avro's int and long have it (Avro 1.11, binary encoding)."""
    return varint((number << 1) ^ (number >> 63))


def avro_string(text: str) -> bytes:
    """Return length and UTF-8 bytes."""
    data = text.encode()
    return zigzag(len(data)) + data


def json_string(text: str) -> str:
    """Return a JSON string literal."""
    # Every name and id of ours is plain; the check is a tenth of json.dumps' price.
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return json.dumps(text, ensure_ascii=False)


class Names(dict[int, Any]):
    """An enum's names by number. A number that a newer schema has given out keeps its place: it is its own name."""

    def __missing__(self, number: int) -> str:
        return str(number)


class Numbers(dict[str, int]):
    """An enum's numbers by name, and of a name that is a number, as `Names` makes it."""

    def __missing__(self, name: str) -> int:
        try:
            return int(name)
        except ValueError:
            raise KeyError(name) from None


class _Texts(dict[float, str]):
    """Decimal texts of float readings; a fleet shows the same few thousand numbers again and again."""

    def __missing__(self, number: float) -> str:
        if number - number != 0.0:
            return json_number(number)
        text = repr(float(number))
        if number:  # 0.0 and -0.0 are one key
            if len(self) >= _TEXTS_KEPT:
                self.clear()
            self[number] = text
        return text


_TEXTS_KEPT: Final = 32_768
TEXT: Final = _Texts()


def json_number(number: float) -> str:
    """Return what the proto3 JSON mapping writes for NaN and the infinities."""
    if math.isnan(number):
        return '"NaN"'
    return '"Infinity"' if number > 0 else '"-Infinity"'
