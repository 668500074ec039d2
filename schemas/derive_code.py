"""The per-message functions that follow from the schema, as the text of a module; runs none of them."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.derive import MADE, flat_order, snake
from schemas.layout import ROOT, Field, Layout


def runs(layout: Layout) -> str:
    """Return the module of functions on one message's scalars, and of the bridge to Protobuf's objects."""
    messages = {n: f for n, f in layout.messages.items() if n != ROOT}
    lines = [
        f'"""Per-message functions. {MADE}; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from struct import Struct",
        "from typing import Any",
        "",
        "from schemas.scalars import TEXT, Names, Numbers, avro_string, json_number, json_string, varint, zigzag",
        "from schemas.generated import records as r",
        "",
        'F32 = Struct("<f").pack',
        'F64 = Struct("<d").pack',
        "ZIGZAG = tuple(zigzag(k) for k in range(128))",
    ]
    for name, values in layout.enums.items():
        lines.append(f"NAMES_{name} = Names(enumerate({values!r}))")
        lines.append(f"NUMBER_{name} = Numbers((name, k) for k, name in NAMES_{name}.items())")
        lines.append(f"AVRO_{name} = {{name: zigzag(k) for name, k in NUMBER_{name}.items()}}")
    for name, fields in messages.items():
        scalars = tuple(f for f in fields if f.is_scalar)
        if scalars:
            lines += ["", "", *_json_run(name, scalars), "", "", *_avro_run(name, scalars)]
            lines += ["", "", *_flat_run(name, scalars), "", "", *_to_protobuf(name, scalars)]
        lines += ["", "", *_from_protobuf(name, fields)]
    for name, fields in layout.messages.items():
        lines += ["", "", *_fill(name, fields), "", "", *_whole_json(name, fields)]
    lines += ["", ""]
    lines.append(f"NAMES = {{{', '.join(f'{n!r}: NAMES_{n}' for n in layout.enums)}}}")
    for kind in ("JSON", "AVRO", "FLAT", "TO_PROTOBUF"):
        names = [n for n, fs in messages.items() if any(f.is_scalar for f in fs)]
        entries = ", ".join(f"r.{n}: {kind.lower()}_{snake(n)}" for n in names)
        lines.append(f"{kind}: dict[type[Any], Any] = {{{entries}}}")
    entries = ", ".join(f"{n!r}: from_protobuf_{snake(n)}" for n in messages)
    return "\n".join([*lines, f"FROM_PROTOBUF = {{{entries}}}", ""])


def _json_run(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    yield f"def json_{snake(name)}(o: Any) -> str:"
    parts = [f'"{f.json_name}":{_json_value(f)}' for f in fields]
    yield "    return f'{}'".format(",".join(parts))


def _json_value(field: Field) -> str:
    value = f"o.{field.name}"
    if field.kind == "double":  # places, which never come again
        # x - x is 0 for every number that JSON can write; infinities and NaN go the slow way.
        return f"{{repr({value}) if {value} - {value} == 0.0 else json_number({value})}}"
    if field.kind == "float":
        return f"{{TEXT[{value}]}}"
    forms = {"uint64": f'"{{{value}}}"', "enum": f'"{{{value}}}"', "string": f"{{json_string({value})}}"}
    forms["bool"] = f'{{"true" if {value} else "false"}}'
    return forms.get(field.kind, f"{{{value}}}")


def _avro_run(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    forms = {
        "double": "F64({})",
        "float": "F32({})",
        "uint64": "varint({} << 1)",
        "uint32": "(ZIGZAG[{0}] if {0} < 128 else varint({0} << 1))",
        "int32": "zigzag({})",
        "string": "avro_string({})",
        "bool": '(b"\\x01" if {} else b"\\x00")',
    }
    yield f"def avro_{snake(name)}(o: Any) -> bytes:"
    parts = [forms.get(f.kind, f"AVRO_{f.type_name}[{{}}]").format(f"o.{f.name}") for f in fields]
    yield f"    return {' + '.join(parts)}"


def _flat_run(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    yield f"def flat_{snake(name)}(o: Any) -> tuple[Any, ...]:"
    values = [_number(f) for f in flat_order(fields)]
    yield f"    return ({''.join(f'{v}, ' for v in values)})"


def _number(field: Field) -> str:
    return f"NUMBER_{field.type_name}[o.{field.name}]" if field.kind == "enum" else f"o.{field.name}"


def _to_protobuf(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    yield f"def to_protobuf_{snake(name)}(o: Any, m: Any) -> None:"
    yield from (f"    m.{f.name} = {_number(f)}" for f in fields)


def _from_protobuf(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    yield f"def from_protobuf_{snake(name)}(m: Any) -> r.{name}:"
    yield f"    return r.{name}("
    for f in fields:
        inner = f"from_protobuf_{snake(f.type_name)}"
        if f.repeated:
            yield f"        [{inner}(x) for x in m.{f.name}],"
        elif f.kind == "message":
            yield f'        {inner}(m.{f.name}) if m.HasField("{f.name}") else None,'
        elif f.kind == "enum":
            yield f"        NAMES_{f.type_name}[m.{f.name}],"
        else:
            yield f"        m.{f.name},"
    yield "    )"


def _fill(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the function that copies a whole message into the library's."""
    yield f"def fill_{snake(name)}(o: Any, m: Any) -> None:"
    if any(f.is_scalar for f in fields):
        yield f"    to_protobuf_{snake(name)}(o, m)"
    for f in fields:
        if f.is_scalar:
            continue
        yield f"    x = o.{f.name}"
        inner = f"fill_{snake(f.type_name)}"
        if f.repeated:
            yield f"    add = m.{f.name}.add"
            yield "    for y in x:"
            yield f"        {inner}(y, add())"
        else:
            yield "    if x is not None:"
            if not f.is_record:  # a record's own scalars mark it as present
                yield f"        m.{f.name}.SetInParent()"
            yield f"        {inner}(x, m.{f.name})"


def _whole_json(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the function that gives the JSON text of a whole message, without its braces."""
    yield f"def whole_json_{snake(name)}(o: Any) -> str:"
    if all(f.is_scalar for f in fields):
        yield f"    return json_{snake(name)}(o)"
        return
    yield "    parts: list[str] = []"
    scalars_done = False
    for f in fields:
        inner = f"whole_json_{snake(f.type_name)}" if f.type_name else ""
        if f.is_scalar:
            if not scalars_done:
                yield f"    parts.append(json_{snake(name)}(o))"
            scalars_done = True
        elif f.repeated:
            yield f"    texts = [f'{{{{{{{inner}(x)}}}}}}' for x in o.{f.name}]"
            yield f'    parts.append(f\'"{f.json_name}":[{{",".join(texts)}}]\')'
        else:
            yield f"    x = o.{f.name}"
            yield "    if x is not None:"
            yield f"        parts.append(f'\"{f.json_name}\":{{{{{{{inner}(x)}}}}}}')"
    yield "    return ','.join(parts)"
