"""Columns into slots: numbers as bytes, and the mask of what is there, for all rows of a block at once."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.formats.blocks import Bytes, Mask, Sizes, Values

_SEVENS: Final = np.arange(10, dtype=np.uint64) * np.uint64(7)
_LOW: Final = np.uint8(127)


class ColumnGroup(NamedTuple):
    """Columns of one type that are written together."""

    form: str
    source: NDArray[np.intp]  # columns of Values.floats, doubles or integers
    owner: NDArray[np.intp]  # the node of each
    owners: NDArray[np.intp]  # those nodes, once each
    starts: NDArray[np.intp] | None  # where the columns of each begin; None: one column each
    values: NDArray[np.intp]  # the value bytes' places, column by column
    masks: NDArray[np.intp]  # the places of tag and value bytes
    tag: int  # the tags' length
    width: int
    signed: Mask


class Rows(NamedTuple):
    """A block while it is made: its columns, and a row of bytes and of their mask for each message."""

    values: Values
    data: Bytes
    mask: Mask
    omits_defaults: bool


class Level(NamedTuple):
    """Nodes whose lengths are worked out together."""

    nodes: NDArray[np.intp]
    parents: NDArray[np.intp]
    starts: NDArray[np.intp]  # where each parent's nodes begin
    lengths: NDArray[np.intp]  # where their lengths lie
    heads: NDArray[np.int32]  # the bytes before their content, with one for the length
    wide: bool  # two bytes for a length


def write_lengths(level: Level, content: Sizes, rows: Rows, present: Mask) -> Sizes:
    """Write the lengths of nodes; return what they add to their parents'."""
    there = present[:, level.nodes]
    if not level.wide:
        rows.data[:, level.lengths] = content
        return (content + level.heads) * there
    long = content > 127
    rows.data[:, level.lengths] = content & 127 | long.astype(np.uint8) << 7
    rows.data[:, level.lengths + 1] = content >> 7
    long &= there
    rows.mask[:, level.lengths + 1] = long
    return (content + level.heads) * there + long


def _floats(c: ColumnGroup, rows: Rows, owned: Mask) -> Sizes:
    numbers = np.ascontiguousarray(rows.values.floats[:, c.source], dtype="<f4")
    return _fixed_width(c, numbers, numbers.view(np.uint8), rows, owned)


def _doubles(c: ColumnGroup, rows: Rows, owned: Mask) -> Sizes:
    numbers = np.ascontiguousarray(rows.values.doubles[:, c.source], dtype="<f8")
    return _fixed_width(c, numbers, numbers.view(np.uint8), rows, owned)


def _fixed(c: ColumnGroup, rows: Rows, owned: Mask) -> Sizes:
    numbers = np.ascontiguousarray(rows.values.integers[:, c.source], dtype="<u8")
    return _fixed_width(c, numbers, numbers.view(np.uint8), rows, owned)


def _one_byte(c: ColumnGroup, rows: Rows, owned: Mask) -> Sizes:
    numbers = rows.values.integers[:, c.source]
    coded = (numbers << c.signed).astype(np.uint8)
    return _fixed_width(c, numbers, coded, rows, owned)


def _fixed_width(c: ColumnGroup, numbers: Any, coded: Bytes, rows: Rows, owned: Mask) -> Sizes:
    shown = owned & (numbers != 0) if rows.omits_defaults else owned
    rows.data[:, c.values] = coded
    rows.mask[:, c.masks] = np.repeat(shown, c.tag + c.width, axis=1)
    return shown * np.int32(c.tag + c.width)


def _varints(c: ColumnGroup, rows: Rows, owned: Mask) -> Sizes:
    numbers = rows.values.integers[:, c.source]
    coded = np.where(c.signed, (numbers << 1) ^ (numbers >> 63), numbers).astype(np.uint64)
    shown = owned & (numbers != 0) if rows.omits_defaults else owned
    # No longer than the longest here; the room behind stays masked.
    most = int(coded.max())
    width = min(c.width, max(1, -(-most.bit_length() // 7)))
    sevens = _SEVENS[:width]
    if most < 1 << 32:
        coded, sevens = coded.astype(np.uint32), sevens.astype(np.uint32)
    groups = coded[:, :, None] >> sevens
    there = groups != 0
    there[:, :, 0] = True
    sizes = np.full(coded.shape, c.tag + 1, dtype=np.int32)
    for k in range(1, width):
        sizes += there[:, :, k]
    # All groups but the last say that another follows.
    low = groups.astype(np.uint8) & _LOW
    low[:, :, :-1] |= there[:, :, 1:].view(np.uint8) << 7
    rows.data[:, c.values.reshape(-1, c.width)[:, :width]] = low
    marks = np.empty((len(there), there.shape[1], c.tag + width), dtype=np.bool_)
    marks[:, :, : c.tag] = shown[:, :, None]
    np.logical_and(there, shown[:, :, None], out=marks[:, :, c.tag :])
    rows.mask[:, c.masks.reshape(-1, c.tag + c.width)[:, : c.tag + width]] = marks
    return sizes * shown


WRITERS: Final = {
    "floats": _floats,
    "doubles": _doubles,
    "fixed": _fixed,
    "byte": _one_byte,
    "varint": _varints,
}
