"""A checked reader of FlatBuffers: every offset is held against the payload's end, work against its size."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from schemas.errors import PayloadError
from schemas.generated import records
from schemas.generated.records import Document
from schemas.generated.runs import NAMES
from schemas.layout import LAYOUT, ROOT, Field

U16: Final = Struct("<H").unpack_from
I32: Final = Struct("<i").unpack_from
U32: Final = Struct("<I").unpack_from
U64: Final = Struct("<Q").unpack_from
VTABLE_3: Final = Struct("<3H").unpack_from
VTABLE_10: Final = Struct("<10H").unpack_from
_NUMBER: Final = {"double": "<d", "float": "<f", "uint64": "<Q", "uint32": "<I", "int32": "<i", "bool": "<?"}
_VTABLES: Final = [Struct(f"<{n}H").unpack_from for n in range(64)]


class _Work:
    """A payload, and how many more tables and string bytes it may stand for."""

    __slots__ = ("payload", "size", "strings", "tables")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.size = len(payload)
        # Every honest table takes 4 bytes and an offset to it 4 more: shared tables cannot multiply the work.
        self.tables = len(payload) // 8 + 1
        self.strings = len(payload)

    def broken(self, offset: int, reason: str) -> PayloadError:
        return PayloadError("flatbuffers", max(0, min(offset, self.size)), reason)

    def follow(self, at: int) -> int:
        """Return where the offset at `at` leads; at least four bytes are there."""
        if at + 4 > self.size:
            raise self.broken(at, "an offset past the end")
        target: int = at + U32(self.payload, at)[0]
        if target + 4 > self.size or target == at:
            raise self.broken(at, "an offset that leads out of the payload")
        return target

    def string(self, at: int) -> str:
        start = self.follow(at)
        end = start + 4 + U32(self.payload, start)[0]
        self.strings -= end - start - 4
        # Strings end in a zero byte that their length leaves out (FlatBuffers, "Strings").
        if end >= self.size or self.payload[end] or self.strings < 0:
            raise self.broken(start, "a string past the end")
        try:
            return self.payload[start + 4 : end].decode()
        except UnicodeDecodeError as error:
            raise self.broken(start + 4 + error.start, "not UTF-8") from None

    def vector(self, at: int) -> list[int]:
        """Return the places of the offsets in a vector of tables."""
        start = self.follow(at)
        count = U32(self.payload, start)[0]
        if count > self.tables or start + 4 + 4 * count > self.size:
            raise self.broken(start, "a vector past the end")
        return list(range(start + 4, start + 4 + 4 * count, 4))


def _value_reader(field: Field) -> Callable[[_Work, int], Any]:
    """Return the function that reads one field at its place in a table."""
    if field.kind == "string":
        return lambda work, at: work.string(at)
    if field.kind == "message":
        read = _TABLES[field.type_name]
        if field.repeated:
            return lambda work, at: [read(work, work.follow(place)) for place in work.vector(at)]
        return lambda work, at: read(work, work.follow(at))
    if field.kind == "enum":
        names = NAMES[field.type_name]
        return lambda work, at: names[work.payload[at]]
    number = Struct(_NUMBER[field.kind])
    unpack = number.unpack_from
    if field.kind == "uint64":
        return lambda work, at: _below_63_bits(work, at, unpack(work.payload, at)[0])
    return lambda work, at: unpack(work.payload, at)[0]


def _below_63_bits(work: _Work, at: int, number: int) -> int:
    if number >> 63:
        raise work.broken(at, "a count of 2^63 or more")
    return number


def _table_reader(name: str) -> Callable[[_Work, int], Any]:
    """Return the function that reads the table of one message at a position."""
    make = getattr(records, "Document" if name == ROOT else name)
    fields = [
        (f.number + 1, f.name, _value_reader(f), 1 if f.kind in {"enum", "bool"} else 4)
        for f in LAYOUT.messages[name]
    ]
    widths = {"double": 8, "uint64": 8}
    plain = tuple(
        (slot, field_name, read, widths.get(f.kind, width))
        for (slot, field_name, read, width), f in zip(fields, LAYOUT.messages[name], strict=True)
    )

    def read_table(work: _Work, at: int) -> Any:
        work.tables -= 1
        if work.tables < 0:
            raise work.broken(at, "more tables than its bytes can hold")
        slots = _vtable(work, at)
        count, end = len(slots), at + slots[1]
        values = {}
        for slot, field_name, read, width in plain:
            if slot < count and slots[slot]:
                place = at + slots[slot]
                if place + width > end:
                    raise work.broken(at, f"{name}.{field_name} lies outside its table")
                values[field_name] = read(work, place)
        return make(**values)

    return read_table


def _vtable(work: _Work, at: int) -> tuple[int, ...]:
    """Return a table's vtable: its own size, the table's size, the offset of each field (0: absent)."""
    start = at - I32(work.payload, at)[0]
    if start < 0 or start + 4 > work.size:
        raise work.broken(at, "a vtable outside the payload")
    size = U16(work.payload, start)[0]
    if size < 4 or size & 1 or start + size > work.size:
        raise work.broken(start, f"a vtable of {size} bytes")
    slots: tuple[int, ...] = _VTABLES[min(size // 2, 63)](work.payload, start)
    if slots[1] < 4 or at + slots[1] > work.size:
        raise work.broken(at, "a table past the end")
    return slots


_TABLES: Final[dict[str, Callable[[_Work, int], Any]]] = {}
for _name in LAYOUT.messages:  # inner messages first
    _TABLES[_name] = _table_reader(_name)


def read_root(payload: bytes) -> Document:
    """Return all of a payload's records; PayloadError at the first lie."""
    work = _Work(payload)
    if len(payload) < 8:
        raise work.broken(len(payload), "too short for a root")
    document: Document = _TABLES[ROOT](work, work.follow(0))
    return document


def read_fields(payload: bytes, paths: tuple[tuple[str, ...], ...]) -> list[Any]:
    """Return the records or scalars at these paths, read where they lie; None for what is absent.

    Only what lies on the way is checked. A path names fields from the root, through single messages.
    """
    work = _Work(payload)
    if len(payload) < 8:
        raise work.broken(len(payload), "too short for a root")
    root = work.follow(0)
    return [_read_path(work, root, path) for path in paths]


def _read_path(work: _Work, at: int, path: tuple[str, ...]) -> Any:
    name = ROOT
    for k, step in enumerate(path):
        slot, inner, read = _FIELDS[name, step]
        slots = _vtable(work, at)
        if slot >= len(slots) or not slots[slot]:
            return None
        place = at + slots[slot]
        if k == len(path) - 1:
            if place + 4 > work.size:
                raise work.broken(at, f"{name}.{step} lies past the end")
            return read(work, place)
        at, name = work.follow(place), inner
    raise ValueError("an empty path")


_FIELDS: Final = {
    (name, f.name): (f.number + 1, f.type_name, _value_reader(f))
    for name, fields in LAYOUT.messages.items()
    for f in fields
}
