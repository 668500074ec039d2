"""A FlatBuffers payload that is built once by the official builder and then changed where it lies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

import flatbuffers

from schemas.derive import FLAT_WIDTH, flat_order
from schemas.formats.flat_read import I32, U16, U32
from schemas.generated.runs import FLAT
from schemas.layout import LAYOUT, ROOT
from schemas.messages import CurrentStatus, units

_TEMPLATES_KEPT: Final = 512
_PACK: Final = {
    "double": "d",
    "uint64": "Q",
    "float": "f",
    "uint32": "I",
    "int32": "i",
    "bool": "?",
    "enum": "B",
}
_STRINGS: Final = {
    name: tuple(f.name for f in fields if f.kind == "string") for name, fields in LAYOUT.messages.items()
}
Pack = Callable[..., None]


def build(status: CurrentStatus) -> bytes:
    """Return what the official builder makes of a status when told to write defaults too (about 2 ms)."""
    builder = flatbuffers.Builder(4096)
    builder.ForceDefaults(True)
    builder.Finish(_build(builder, ROOT, status))
    return bytes(builder.Output())


def _build(builder: Any, name: str, message: Any) -> int:
    offsets: dict[int, int] = {}
    for field in LAYOUT.messages[name]:
        value = getattr(message, field.name)
        if field.repeated:
            offsets[field.number - 1] = _build_vector(builder, field.type_name, value)
        elif field.kind == "message" and value is not None:
            offsets[field.number - 1] = _build(builder, field.type_name, value)
        elif field.kind == "string":
            offsets[field.number - 1] = builder.CreateString(value)
    builder.StartObject(max(f.number for f in LAYOUT.messages[name]))
    order = flat_order(LAYOUT.messages[name])
    numbers = dict(zip(order, FLAT[type(message)](message), strict=True)) if order else {}
    # Offsets lie behind the numbers, so that between two numbers there is never more than padding.
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for field in reversed(order):  # the builder grows downwards
        _slot(builder, field.kind)(field.number - 1, numbers[field], 0)
    return int(builder.EndObject())


def _build_vector(builder: Any, name: str, items: list[Any]) -> int:
    offsets = [_build(builder, name, item) for item in items]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _slot(builder: Any, kind: str) -> Pack:
    slots = {
        "double": builder.PrependFloat64Slot,
        "uint64": builder.PrependUint64Slot,
        "float": builder.PrependFloat32Slot,
        "uint32": builder.PrependUint32Slot,
        "int32": builder.PrependInt32Slot,
        "bool": builder.PrependBoolSlot,
        "enum": builder.PrependUint8Slot,
    }
    return slots[kind]  # type: ignore[no-any-return]


class _Template:
    """A built payload and, for each unit, how its numbers and strings are written into it."""

    __slots__ = ("built", "places")

    def __init__(self, status: CurrentStatus) -> None:
        self.built = build(status)
        names = [type(unit).__name__ for unit in units(status)]
        tables_ = list(tables(self.built))
        pairs = zip(names, tables_, strict=True)
        self.places = [_place(self.built, name, at) for name, at in pairs]


_templates: OrderedDict[tuple[Any, ...], _Template] = OrderedDict()


class Prepared:
    """One status' payload; equal to `build(status)` byte for byte after every change of a number."""

    __slots__ = ("buffer", "places")

    def __init__(self, status: CurrentStatus) -> None:
        template = _template(status)
        self.buffer = bytearray(template.built)
        self.places = template.places
        self.renew(list(units(status)), range(len(self.places)))

    def renew(self, records: list[Any], changed: Iterable[int]) -> bool:
        """Write these units' values where they lie; False when a string no longer fits its place."""
        buffer, places = self.buffer, self.places
        for unit in changed:
            pack, base, texts = places[unit]
            record = records[unit]
            pack(buffer, base, *FLAT[type(record)](record))
            if texts and not self._write_texts(texts, record):
                return False
        return True

    def _write_texts(self, texts: tuple[tuple[str, int, int], ...], record: Any) -> bool:
        for name, start, length in texts:
            data = getattr(record, name).encode()
            if len(data) != length:
                return False
            self.buffer[start : start + length] = data
        return True


def _template(status: CurrentStatus) -> _Template:
    key = tuple(_shape(status))
    template = _templates.get(key)
    if template is None:
        template = _templates[key] = _Template(status)
        if len(_templates) > _TEMPLATES_KEPT:
            _templates.popitem(last=False)
    else:
        _templates.move_to_end(key)
    return template


def _shape(status: CurrentStatus) -> Iterator[Any]:
    """Yield all on which the places of a payload depend: what is there, list lengths, string lengths."""
    for field in LAYOUT.messages[ROOT]:
        value = getattr(status, field.name)
        if field.repeated:
            yield len(value)
            for item in value:
                yield from _shape_of(field.type_name, item)
        else:
            yield value is None
            if value is not None:
                yield from _shape_of(field.type_name, value)


def _shape_of(name: str, message: Any) -> Iterator[Any]:
    for text in _STRINGS[name]:
        yield len(getattr(message, text).encode())
    for field in LAYOUT.messages[name]:
        if field.repeated:
            items = getattr(message, field.name)
            yield len(items)
            for item in items:
                yield from _shape_of(field.type_name, item)
        elif field.is_record:
            yield getattr(message, field.name) is None


def tables(built: bytes) -> Iterator[int]:
    """Yield where the tables of a built payload that have numbers or strings lie, in the order of `units`."""
    yield from _tables(built, ROOT, U32(built, 0)[0])


def _tables(built: bytes, name: str, at: int) -> Iterator[int]:
    """Yield the tables of a built payload in the order of `units`."""
    scalars_done = False
    for field in LAYOUT.messages[name]:
        place = field_place(built, at, field.number)
        if field.is_scalar:
            if not scalars_done:
                yield at
            scalars_done = True
            if field.is_scalar and name in {"Reading", "Counter", "Flag"}:
                return
        elif place and field.repeated:
            start = place + U32(built, place)[0]
            for k in range(U32(built, start)[0]):
                item = start + 4 + 4 * k
                yield from _tables(built, field.type_name, item + U32(built, item)[0])
        elif place:
            yield from _tables(built, field.type_name, place + U32(built, place)[0])


def field_place(built: bytes, at: int, number: int) -> int:
    """Return where a field's inline part lies, 0 when it is absent."""
    vtable = at - I32(built, at)[0]
    if 2 + 2 * number >= U16(built, vtable)[0]:
        return 0
    offset = U16(built, vtable + 2 + 2 * number)[0]
    return at + offset if offset else 0


def _place(built: bytes, name: str, at: int) -> tuple[Pack, int, tuple[tuple[str, int, int], ...]]:
    """Return (pack_into, first byte, strings' places) for the unit whose table is at `at`."""
    order = flat_order(LAYOUT.messages[name])
    starts = [field_place(built, at, f.number) for f in order]
    base = min(starts)
    form, reached = "<", base
    for field, start in zip(order, starts, strict=True):
        # A gap is padding (see _build), which packing writes as the zeros that it is.
        form += _skip(start - reached) + _PACK[field.kind]
        reached = start + FLAT_WIDTH[field.kind]
    texts = []
    for text in _STRINGS[name]:
        number = next(f.number for f in LAYOUT.messages[name] if f.name == text)
        start = field_place(built, at, number)
        start += U32(built, start)[0]
        texts.append((text, start + 4, U32(built, start)[0]))
    return Struct(form).pack_into, base, tuple(texts)


def _skip(gap: int) -> str:
    if gap < 0:
        raise ValueError("the builder's order is not the order of flat_order")
    return f"{gap}x" if gap else ""
