"""FlatBuffers payloads that are made in blocks: every number has its place already, in each vehicle's own buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.formats.blocks import Bytes, Columns, Event, Shape, Values
from schemas.formats.flat_prepared import Prepared, field_place, tables

_TYPES: Final = {
    "float": "<f4",
    "double": "<f8",
    "enum": "u1",
    "bool": "u1",
    "uint32": "<u4",
    "int32": "<i4",
    "uint64": "<u8",
}
_SPARE: Final = 8  # behind the longest payload: where numbers go that a vehicle does not have


class _Group(NamedTuple):
    """Columns of one type."""

    kind: str  # which of Values' columns
    source: NDArray[np.intp]
    scalars: NDArray[np.intp]
    type: np.dtype


class FlatLayout:
    """Which columns are written as what; their places differ from vehicle to vehicle."""

    def __init__(self, shape: Shape, columns: Columns) -> None:
        self.shape = shape
        self.groups: list[_Group] = []
        for kind, scalars in columns._asdict().items():
            by_type: dict[str, list[int]] = {}
            for column, k in enumerate(scalars):
                by_type.setdefault(_TYPES[shape.scalars[k].field.kind], []).append(column)
            for name, found in by_type.items():
                numbers = np.array([scalars[c] for c in found], dtype=np.intp)
                self.groups.append(_Group(kind, np.array(found, dtype=np.intp), numbers, np.dtype(name)))

    def templates(self, vehicles: int) -> FlatTemplates:
        return FlatTemplates(self, vehicles)


class FlatTemplates:
    """A buffer for each vehicle, and where each scalar lies in it."""

    def __init__(self, layout: FlatLayout, vehicles: int) -> None:
        self._layout = layout
        self._places = np.full((vehicles, len(layout.shape.scalars)), -1, dtype=np.int32)
        self._sizes = np.zeros(vehicles, dtype=np.int64)
        self._bytes: Bytes = np.zeros((vehicles, _SPARE), dtype=np.uint8)
        self._at: list[NDArray[np.int64]] = []
        self._at_of = b""

    def set(self, vehicle: int, messages: list[Any]) -> None:
        built = bytes(Prepared(messages[0]).buffer)
        if len(built) + _SPARE > self._bytes.shape[1]:
            wider = np.zeros((len(self._bytes), len(built) + _SPARE), dtype=np.uint8)
            wider[:, : self._bytes.shape[1]] = self._bytes
            self._bytes = wider
        self._bytes[vehicle, : len(built)] = np.frombuffer(built, dtype=np.uint8)
        self._sizes[vehicle] = len(built)
        self._at_of = b""
        shape = self._layout.shape
        found = iter(tables(built))
        table, of_node = 0, -1
        for k, scalar in enumerate(shape.scalars):
            if messages[scalar.node] is None:
                continue
            # The scalars of a message are one run, in the order in which the tables come.
            if scalar.node != of_node:
                table, of_node = next(found), scalar.node
            if scalar.field.kind != "string":
                self._places[vehicle, k] = field_place(built, table, scalar.field.number)

    def payloads(self, members: Sequence[int], values: Values, events: Iterable[Event]) -> list[bytes]:
        size = len(members)
        rows = np.tile(np.asarray(members, dtype=np.intp), len(values.floats) // size)
        data = self._bytes[rows]
        for event in events:
            own = members[event.member]
            place = int(self._places[own, event.scalar])
            coded = np.array([event.value], _TYPES[self._layout.shape.scalars[event.scalar].field.kind])
            room = slice(place, place + coded.itemsize)
            data[event.tick * size + event.member :: size, room] = coded.view(np.uint8)
            self._bytes[own, room] = coded.view(np.uint8)
        flat = data.reshape(-1)
        for group, at in zip(self._layout.groups, self._places_in(rows), strict=True):
            numbers = getattr(values, group.kind)[:, group.source].astype(group.type)
            flat[at] = np.ascontiguousarray(numbers).view(np.uint8).reshape(at.shape)
        whole, width = data.tobytes(), data.shape[1]
        return [whole[k * width : k * width + n] for k, n in enumerate(self._sizes[rows].tolist())]

    def _places_in(self, rows: NDArray[np.intp]) -> list[NDArray[np.int64]]:
        """Return where the bytes of each group's columns lie in a block of these vehicles, as one run of bytes."""
        key = rows.tobytes()
        if key != self._at_of:
            width = self._bytes.shape[1]
            begins = np.arange(len(rows), dtype=np.int64)[:, None] * width
            self._at = []
            for group in self._layout.groups:
                places = self._places[rows][:, group.scalars].astype(np.int64)
                starts = np.where(places < 0, width - _SPARE, places) + begins
                self._at.append(starts[:, :, None] + np.arange(group.type.itemsize))
            self._at_of = key
        return self._at
