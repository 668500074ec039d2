"""Texts that follow from the schema: Avro and FlatBuffers schemas, typed records, per-message functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from schemas.layout import RECORDS, ROOT, Field, Layout

_AVRO: Final = {
    "double": ("double", 0.0),
    "float": ("float", 0.0),
    "uint64": ("long", 0),
    "uint32": ("long", 0),
    "int32": ("int", 0),
    "bool": ("boolean", False),
    "string": ("string", ""),
}
_FLAT: Final = {"double": "double", "float": "float", "uint64": "ulong", "uint32": "uint", "int32": "int"}
_PYTHON: Final = {
    "double": ("Float64", "msgspec.field(default_factory=float)"),
    "float": ("Float32", "msgspec.field(default_factory=float)"),
    "uint64": ("UInt64", "0"),
    "uint32": ("UInt32", "0"),
    "int32": ("Int32", "0"),
    "bool": ("Any", "False"),  # the lax reading of JSON would take 1 and "true" for a bool
    "string": ("str", '""'),
}
# By width, widest first, as flatc's own packers order a table; strings last.
FLAT_WIDTH: Final = {"double": 8, "uint64": 8, "float": 4, "uint32": 4, "int32": 4, "bool": 1, "enum": 1}
MADE: Final = "Made from current_status.proto by `python -m schemas.generate`"


def snake(name: str) -> str:
    """Return `CurrentStatus` as `current_status`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def flat_order(fields: tuple[Field, ...]) -> list[Field]:
    """Return the numeric fields in the order in which they lie in a FlatBuffers table."""
    numbers = [f for f in fields if f.kind in FLAT_WIDTH]
    return sorted(numbers, key=lambda f: -FLAT_WIDTH[f.kind])


def avro_schema(layout: Layout) -> str:
    """Return the Avro schema: optional messages are unions with null, every field has a default."""
    return json.dumps(_avro_record(ROOT, layout, set()), indent=1) + "\n"


def _avro_record(name: str, layout: Layout, seen: set[str]) -> Any:
    if name in seen:
        return f"ivsim.{name}"
    seen.add(name)
    fields = [_avro_field(f, layout, seen) for f in layout.messages[name]]
    return {"type": "record", "name": name, "namespace": "ivsim", "fields": fields}


def _avro_field(field: Field, layout: Layout, seen: set[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": field.json_name}
    if field.kind == "message":
        inner = _avro_record(field.type_name, layout, seen)
        if field.repeated:
            return entry | {"type": {"type": "array", "items": inner}, "default": []}
        return entry | {"type": ["null", inner], "default": None}
    if field.kind == "enum":
        symbols = layout.enums[field.type_name]
        # The symbol default lets an old reader take a value it has never heard of (Avro 1.9 and later).
        enum = {"type": "enum", "name": field.type_name, "symbols": list(symbols), "default": symbols[0]}
        kind: Any = f"ivsim.{field.type_name}" if field.type_name in seen else enum
        seen.add(field.type_name)
        return entry | {"type": kind, "default": symbols[0]}
    kind, default = _AVRO[field.kind]
    return entry | {"type": kind, "default": default}


def flatbuffers_schema(layout: Layout) -> str:
    """Return the FlatBuffers schema; field ids are the Protobuf numbers less one, so both stay stable."""
    lines = [f"// {MADE}; do not edit.", "namespace ivsim;", ""]
    for name, values in layout.enums.items():
        lines.append(f"enum {name} : ubyte {{ {', '.join(values)} }}")
    for name, fields in layout.messages.items():
        lines += ["", f"table {name} {{"]
        lines += [f"  {f.name}:{_flat_type(f)} (id: {f.number - 1});" for f in fields]
        lines.append("}")
    return "\n".join([*lines, "", f"root_type {ROOT};", ""])


def _flat_type(field: Field) -> str:
    name = field.type_name or _FLAT.get(field.kind, field.kind)
    return f"[{name}]" if field.repeated else name


def records(layout: Layout) -> str:
    """Return the module of typed records (msgspec structs)."""
    lines = [
        f'"""Typed records. {MADE}; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Annotated, Any, Literal",
        "",
        "import msgspec",
        "",
        "Float64 = Annotated[float, msgspec.Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]",
        "Float32 = Annotated[float, msgspec.Meta(ge=-3.4028234663852886e38, le=3.4028234663852886e38)]",
        "UInt64 = Annotated[int, msgspec.Meta(ge=0, le=9223372036854775807)]",
        "UInt32 = Annotated[int, msgspec.Meta(ge=0, le=4294967295)]",
        "Int32 = Annotated[int, msgspec.Meta(ge=-2147483648, le=2147483647)]",
        "",
    ]
    for name, values in layout.enums.items():
        lines.append(f"{name} = Literal[{', '.join(json.dumps(v) for v in values)}]")
    for name, fields in layout.messages.items():
        lines += ["", "", *_struct(name, fields, layout)]
    return "\n".join([*lines, ""])


def _struct(name: str, fields: tuple[Field, ...], layout: Layout) -> Iterator[str]:
    title = "Document" if name == ROOT else name
    yield f'class {title}(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):'
    for field in fields:
        if field.repeated:
            yield f"    {field.name}: list[{field.type_name}] = msgspec.field(default_factory=list)"
        elif field.kind == "message":
            yield f"    {field.name}: {field.type_name} | None = None"
        elif field.kind == "enum":
            yield f'    {field.name}: {field.type_name} = "{layout.enums[field.type_name][0]}"'
        else:
            yield "    {}: {} = {}".format(field.name, *_PYTHON[field.kind])
    for field in fields:
        if field.kind == "bool":
            yield ""
            yield "    def __post_init__(self) -> None:"
            yield f"        if type(self.{field.name}) is not bool:"
            yield '            raise ValueError("Expected `bool`")'


assert {"Reading", "Counter", "Flag"} == RECORDS
