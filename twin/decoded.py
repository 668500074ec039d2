"""Typed columns of a decoded CurrentStatus, made from the schema's own tables; it knows no byte format by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.layout import LAYOUT, ROOT, Field

_SCALARS: Final = {
    "double": pa.float64(), "float": pa.float32(), "uint64": pa.int64(), "uint32": pa.int64(), "int32": pa.int32(),
    "bool": pa.bool_(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
# A reading, counter or flag becomes one column: its value. Age, quality and origin stay in the payload.
_VALUES: Final = {
    "Reading": ("value", pa.float32()),
    "Counter": ("value", pa.int64()),
    "Flag": ("active", pa.bool_()),
}

Getter = Callable[[Any], Any]
STAMPS: Final = (
    ("vehicle_id", pa.string()), ("epoch", pa.int64()), ("sequence", pa.int64()), ("sampled_at_ns", pa.int64()),
    ("received_at_ns", pa.int64()), ("appended_at_ns", pa.int64()), ("format", pa.string()),
    ("protocol", pa.string()), ("mode", pa.string()), ("payload_bytes", pa.int32()), ("partition", pa.int32()),
    ("offset", pa.int64()),
)  # fmt: skip
VERDICT: Final = (("reason", pa.string()), ("detail", pa.string()), ("payload_head", pa.binary()))


def _value(field: Field) -> tuple[pa.DataType, Getter]:
    if field.type_name in _VALUES:
        inner, kind = _VALUES[field.type_name]
        return kind, lambda record: None if record is None else getattr(record, inner)
    if field.is_scalar:
        return _SCALARS[field.kind], lambda value: value
    return _struct(field.type_name)


def _struct(message: str) -> tuple[pa.DataType, Getter]:
    parts = [(field.name, *_field(field)) for field in LAYOUT.messages[message]]

    def get(record: Any) -> dict[str, Any] | None:
        return None if record is None else {name: take(getattr(record, name)) for name, _, take in parts}

    return pa.struct([(name, kind) for name, kind, _ in parts]), get


def _field(field: Field) -> tuple[pa.DataType, Getter]:
    kind, take = _value(field)
    if not field.repeated:
        return kind, take
    return pa.list_(kind), lambda values: [take(value) for value in values or ()]


def _columns() -> list[tuple[str, pa.DataType, str, str | None, Getter]]:
    """Return (column, type, section, field or None for a whole repeated section, getter)."""
    columns: list[tuple[str, pa.DataType, str, str | None, Getter]] = []
    for section in LAYOUT.messages[ROOT]:
        if section.repeated:
            columns.append((section.name, *_field(section)[:1], section.name, None, _field(section)[1]))
            continue
        for field in LAYOUT.messages[section.type_name]:
            kind, take = _field(field)
            columns.append((f"{section.name}_{field.name}", kind, section.name, field.name, take))
    return columns


_COLUMNS: Final = _columns()
SCHEMA: Final = pa.schema([*STAMPS, *((name, kind) for name, kind, *_ in _COLUMNS)])
WITH_VERDICT: Final = pa.schema([*SCHEMA, *(pa.field(name, kind) for name, kind in VERDICT)])


def row(payload: bytes, format_name: str) -> dict[str, Any]:
    """Return the status columns of a payload; PayloadError when its format cannot read it."""
    status = FORMATS[format_name].decode(payload)
    found: dict[str, Any] = {}
    for name, _, section, field, take in _COLUMNS:
        record = getattr(status, section)
        found[name] = (
            take(record) if field is None else take(getattr(record, field)) if record is not None else None
        )
    return found


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode Arrow batches of parsed records; what cannot be decoded keeps its stamps and gets a reason."""
    for batch in batches:
        rows = [_decoded(record) for record in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=WITH_VERDICT)


def _decoded(record: dict[str, Any]) -> dict[str, Any]:
    payload = record.pop("value")
    if record["reason"] is None:
        try:
            columns = row(payload, record["format"])
            other = columns.get("header_vehicle_id")
            if not other or other == record["vehicle_id"]:
                return columns | record
            record |= {"reason": "other_vehicle", "detail": f"the payload is of {other[:40]}"}
        except PayloadError as error:
            record |= {"reason": "undecodable", "detail": str(error)[:300]}
    return record | {"payload_head": payload[:1_024] if payload is not None else None}
