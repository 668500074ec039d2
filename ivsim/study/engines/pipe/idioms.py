"""The table of idioms: a library and a way of using it, for the records that are rows of columns.

The same bytes may cost twice as much or half, by the way in which a library is used: a row of the table is a format
with its idiom. What a format costs falls into stages: *build* makes what the library takes out of a row, *encode* makes
bytes of it, *decode* makes an object of bytes, and *read* touches every field of that object. Most libraries make all
values in decode; there *read* is None. A new one is a function and one line here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import cbor2
import fastavro
import flatbuffers
import msgpack
import msgspec
import orjson
from flatbuffers import number_types, table
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ivsim.study.engines.pipe import registry_codecs as registered
from ivsim.study.engines.pipe.records import (
    BLOCKS,
    BYTES,
    CURRENT_STATUS,
    DECIMAL,
    EMPTY,
    INTEGER,
    NUMBER,
    TIME,
    WORD,
    Column,
    Row,
    bytes_of,
    columns_of,
    rows_of,
    statuses,
)
from ivsim.study.engines.pipe.schema_registry import Schema
from schemas.formats import FORMATS

_DEFAULTS: Final = {DECIMAL: 0.0, EMPTY: 0.0, WORD: "", TIME: "", NUMBER: 0, INTEGER: 0}


class Codec(NamedTuple):
    """The four stages of one idiom for one kind of record.

    Attributes:
        build: from a row to what `encode` takes; None where there is nothing to build.
        read: touches every field of what `decode` returns; None where decode has made them all.
    """

    build: Callable[[Any], Any] | None
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    read: Callable[[Any], Any] | None = None


class Idiom(NamedTuple):
    """One row of `IDIOMS`.

    Attributes:
        format: what the bytes are; idioms of one format and types give the same fields.
        package: whose version a result depends on.
        summary: one line.
        make: makes the codec for the columns of a record; with `registry`, of columns and a registry.
        registry: payloads name their schema, which a schema registry keeps.
    """

    format: str
    package: str
    summary: str
    make: Callable[..., Codec]
    registry: bool = False


def _by_loop(columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    """Fill a copy of a template, column by column, as the thesis does."""
    names = [column.name for column in columns]
    template = dict.fromkeys(names)

    def build(row: Row) -> dict[str, Any]:
        made: dict[str, Any] = template.copy()
        for place, value in enumerate(row):
            made[names[place]] = value.isoformat() if hasattr(value, "isoformat") else value
        return made

    return build


def _by_zip(columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    names = [column.name for column in columns]
    times = [place for place, column in enumerate(columns) if column.kind == TIME]

    def build(row: Row) -> dict[str, Any]:
        made = dict(zip(names, row, strict=True))
        for place in times:
            made[names[place]] = row[place].isoformat()
        return made

    return build


def _json(columns: Sequence[Column]) -> Codec:
    return Codec(_by_loop(columns), lambda made: json.dumps(made).encode(), json.loads)


def _json_compact(columns: Sequence[Column]) -> Codec:
    encoder = json.JSONEncoder(separators=(",", ":"))
    return Codec(_by_zip(columns), lambda made: encoder.encode(made).encode(), json.loads)


def _orjson(columns: Sequence[Column]) -> Codec:
    return Codec(_by_zip(columns), orjson.dumps, orjson.loads)


def _msgspec_json(columns: Sequence[Column]) -> Codec:
    return Codec(_by_zip(columns), msgspec.json.Encoder().encode, msgspec.json.Decoder().decode)


def _msgpack(columns: Sequence[Column]) -> Codec:
    return Codec(_by_loop(columns), msgpack.packb, msgpack.unpackb)


def _msgspec_msgpack(columns: Sequence[Column]) -> Codec:
    return Codec(_by_zip(columns), msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode)


def _cbor(columns: Sequence[Column]) -> Codec:
    return Codec(_by_zip(columns), cbor2.dumps, cbor2.loads)


_AVRO: Final = {
    TIME: "string",
    NUMBER: "long",
    DECIMAL: "double",
    WORD: "string",
    INTEGER: "long",
    EMPTY: "double",
}


def _avro_schema(columns: Sequence[Column], *, nullable: bool) -> dict[str, Any]:
    fields = [
        {"name": name, "type": ["null", _AVRO[kind]] if nullable else _AVRO[kind]} for name, kind in columns
    ]
    return {"type": "record", "name": "Row", "fields": fields}


def _avro(columns: Sequence[Column], *, nullable: bool) -> Codec:
    schema = fastavro.parse_schema(_avro_schema(columns, nullable=nullable))
    loop = _by_loop(columns)
    empty = {name: _DEFAULTS[kind] for name, kind in columns if kind == EMPTY}

    def encode(made: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, made)
        return out.getvalue()

    def decode(payload: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(payload), schema, None)

    # Without a union there is no null: an empty column has the default of its type.
    return Codec(loop if nullable else lambda row: loop(row) | empty, encode, decode)


def _avro_nullable(columns: Sequence[Column]) -> Codec:
    return _avro(columns, nullable=True)


def _avro_plain(columns: Sequence[Column]) -> Codec:
    return _avro(columns, nullable=False)


# FieldDescriptorProto.Type: 1 double, 2 float, 3 int64, 9 string
_PROTOBUF: Final = {TIME: 9, NUMBER: 3, DECIMAL: 2, WORD: 9, INTEGER: 3, EMPTY: 2}


def _message(columns: Sequence[Column], *, double: bool, second: bool = False) -> Any:
    """Return the class of a message whose fields are optional (proto3), so that an empty one takes no byte.

    Args:
        columns: of the record.
        double: 8 bytes for a decimal, not 4.
        second: the message is the second one of its file, which a registry's frame says.
    """
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="ivsim.pipe", syntax="proto3")
    if second:
        file.message_type.add(name="Head")
    message = file.message_type.add(name="Row")
    for number, (name, kind) in enumerate(columns, 1):
        code = 1 if double and _PROTOBUF[kind] == 2 else _PROTOBUF[kind]
        message.field.add(
            name=name, number=number, type=code, label=1, proto3_optional=True, oneof_index=number - 1
        )
    # An optional field of proto3 is a oneof of its own.
    for name, _ in columns:
        message.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ivsim.pipe.Row"))


def _all_fields(columns: Sequence[Column]) -> Callable[[Any], None]:
    names = [column.name for column in columns]

    def read(message: Any) -> None:
        for name in names:
            getattr(message, name)

    return read


def _protobuf(columns: Sequence[Column], *, double: bool = False) -> Codec:
    return _protobuf_of(_message(columns, double=double), columns)


def _protobuf_of(kind: Any, columns: Sequence[Column]) -> Codec:
    names = [column.name for column in columns]

    def build(row: Row) -> Any:
        made = kind()
        for place, value in enumerate(row):
            if value is not None:
                setattr(made, names[place], value.isoformat() if hasattr(value, "isoformat") else value)
        return made

    return Codec(build, kind.SerializeToString, kind.FromString, _all_fields(columns))


def _protobuf_double(columns: Sequence[Column]) -> Codec:
    return _protobuf(columns, double=True)


def _protobuf_keywords(columns: Sequence[Column]) -> Codec:
    kind = _message(columns, double=False)
    fill = _by_zip(columns)
    # None is "not given" to the constructor.
    return Codec(lambda row: kind(**fill(row)), kind.SerializeToString, kind.FromString, _all_fields(columns))


def _protobuf_framed(
    columns: Sequence[Column], registry: registered.Registry, *, second: bool = False
) -> Codec:
    kind = _message(columns, double=False, second=second)
    inner = _protobuf_of(kind, columns)
    schema, path = registered.protobuf_schema(kind), [int(second)]
    return inner._replace(**registered.framed(inner.encode, inner.decode, schema, registry, path)._asdict())


def _protobuf_framed_second(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    return _protobuf_framed(columns, registry, second=True)


def _protobuf_confluent(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    kind = _message(columns, double=False)
    return _protobuf_of(kind, columns)._replace(**registered.confluent_protobuf(kind, registry)._asdict())


def _avro_framed(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    inner = _avro_nullable(columns)
    schema = Schema("AVRO", json.dumps(_avro_schema(columns, nullable=True)))
    return inner._replace(**registered.framed(inner.encode, inner.decode, schema, registry)._asdict())


def _avro_confluent(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    schema = _avro_schema(columns, nullable=True)
    return Codec(_by_loop(columns), *registered.confluent_avro(schema, registry))


_JSON_TYPES: Final = {
    TIME: "string",
    NUMBER: "integer",
    DECIMAL: "number",
    WORD: "string",
    INTEGER: "integer",
    EMPTY: "number",
}


def _json_schema(columns: Sequence[Column]) -> dict[str, Any]:
    properties = {name: {"type": [_JSON_TYPES[kind], "null"]} for name, kind in columns}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Row",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _json_framed(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    inner = _json(columns)
    schema = Schema("JSON", json.dumps(_json_schema(columns)))
    return inner._replace(**registered.framed(inner.encode, inner.decode, schema, registry)._asdict())


def _json_confluent(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    found = registered.confluent_json(_json_schema(columns), registry, validate=False)
    return Codec(_by_loop(columns), *found)


def _json_validated(columns: Sequence[Column], registry: registered.Registry) -> Codec:
    found = registered.confluent_json(_json_schema(columns), registry, validate=True)
    return Codec(_by_loop(columns), *found)


_TEXTS: Final = (TIME, WORD)
_INTEGERS: Final = (NUMBER, INTEGER)


def _flatbuffers(columns: Sequence[Column]) -> Codec:
    def decode(payload: bytes) -> Any:
        return table.Table(payload, int.from_bytes(payload[:4], "little"))

    return Codec(None, _flat_builder(columns), decode, _flat_reader(columns))


def _flat_builder(columns: Sequence[Column]) -> Callable[[Row], bytes]:
    def encode(row: Row) -> bytes:
        builder = flatbuffers.Builder(256)
        texts = {
            place: builder.CreateString(row[place].isoformat() if kind == TIME else row[place])
            for place, (_, kind) in enumerate(columns)
            if kind in _TEXTS
        }
        builder.StartObject(len(columns))
        for place, (_, kind) in enumerate(columns):
            if kind in _TEXTS:
                builder.PrependUOffsetTRelativeSlot(place, texts[place], 0)
            elif row[place] is not None:
                put = builder.PrependInt64Slot if kind in _INTEGERS else builder.PrependFloat32Slot
                put(place, row[place], 0)
        builder.Finish(builder.EndObject())
        return bytes(builder.Output())

    return encode


def _flat_reader(columns: Sequence[Column]) -> Callable[[Any], list[Any]]:
    flags = [
        None
        if kind in _TEXTS
        else number_types.Int64Flags
        if kind in _INTEGERS
        else number_types.Float32Flags
        for _, kind in columns
    ]

    def read(root: Any) -> list[Any]:
        found: list[Any] = []
        for place, flag in enumerate(flags):
            offset = root.Offset(4 + 2 * place)  # the slot of a field in the table's head
            if not offset:
                found.append(None)
            elif flag is None:
                found.append(root.String(root.Pos + offset))
            else:
                found.append(root.Get(flag, root.Pos + offset))
        return found

    return read


IDIOMS: Final[dict[str, Idiom]] = {
    "json": Idiom("json", "python", "the standard library, as the thesis has it", _json),
    "json-compact": Idiom("json", "python", "the standard library, without spaces", _json_compact),
    "orjson": Idiom("json", "orjson", "orjson", _orjson),
    "msgspec-json": Idiom("json", "msgspec", "msgspec", _msgspec_json),
    "msgpack": Idiom("msgpack", "msgpack", "msgpack, as the thesis has it", _msgpack),
    "msgspec": Idiom("msgpack", "msgspec", "msgspec", _msgspec_msgpack),
    "avro": Idiom("avro", "fastavro", "fastavro, every field a union with null", _avro_nullable),
    "avro-plain": Idiom("avro", "fastavro", "fastavro without unions", _avro_plain),
    "protobuf": Idiom("protobuf", "protobuf", "Google's, field by field with setattr, float", _protobuf),
    "protobuf-keywords": Idiom(
        "protobuf", "protobuf", "Google's, by keyword arguments, float", _protobuf_keywords
    ),
    "protobuf-double": Idiom(
        "protobuf", "protobuf", "Google's, by setattr, double as Avro has", _protobuf_double
    ),
    "flatbuffers": Idiom("flatbuffers", "flatbuffers", "the official builder, in Python", _flatbuffers),
    "cbor": Idiom("cbor", "cbor2", "cbor2", _cbor),
    "json-framed": Idiom(
        "json", "python", "json behind a registry's frame, 5 B", _json_framed, registry=True
    ),
    "avro-framed": Idiom(
        "avro", "fastavro", "avro behind a registry's frame, 5 B", _avro_framed, registry=True
    ),
    "protobuf-framed": Idiom(
        "protobuf", "protobuf", "protobuf behind a registry's frame, 6 B", _protobuf_framed, registry=True
    ),
    "protobuf-framed-second": Idiom(
        "protobuf",
        "protobuf",
        "the same as the second message of its file, 7 B",
        _protobuf_framed_second,
        registry=True,
    ),
    "json-confluent": Idiom(
        "json",
        "confluent-kafka",
        "Confluent's serialiser for a registry, told not to validate",
        _json_confluent,
        registry=True,
    ),
    "json-confluent-validated": Idiom(
        "json",
        "confluent-kafka",
        "the same as it comes: every record is validated at both ends",
        _json_validated,
        registry=True,
    ),
    "avro-confluent": Idiom(
        "avro", "confluent-kafka", "Confluent's serialiser for a registry", _avro_confluent, registry=True
    ),
    "protobuf-confluent": Idiom(
        "protobuf",
        "confluent-kafka",
        "Confluent's serialiser for a registry",
        _protobuf_confluent,
        registry=True,
    ),
}


# Bytes as they are.
RAW: Final = "raw"
_RAW: Final = Codec(None, lambda content: content, lambda value: value)


def formats_of(record: str) -> tuple[str, ...]:
    """Return the formats, or idioms of them, that a record can have."""
    if record in BYTES:
        return (RAW,)
    return tuple(FORMATS) if record == CURRENT_STATUS else tuple(IDIOMS)


def every_format() -> tuple[str, ...]:
    """Return the formats of all records, each once."""
    return tuple(dict.fromkeys([*FORMATS, *IDIOMS, RAW]))


def needs_registry(record: str, name: str) -> bool:
    """Return whether payloads name their schema, so that `codec_of` needs a schema registry."""
    return name in IDIOMS and record in BLOCKS and IDIOMS[name].registry


def codec_of(record: str, name: str, registry: str | None = None) -> Codec:
    """Return how a record is encoded and decoded.

    Args:
        record: one of RECORDS.
        name: format, or idiom of one.
        registry: address of a schema registry, where `needs_registry`.
    """
    if record == CURRENT_STATUS:
        found = FORMATS[name]
        return Codec(None, found.encode, found.decode)
    if record in BYTES:
        return _RAW
    idiom = IDIOMS[name]
    if not idiom.registry:
        return idiom.make(columns_of(record))
    assert registry is not None, f"{name} needs a schema registry"
    # A topic of its own for each: a registry would compare one's schema with another's.
    return idiom.make(columns_of(record), registered.Registry(registry, f"ivsim-{record}-{name}"))


def contents(record: str, count: int, seed: int) -> list[Any]:
    """Return the contents of a record, drawn from the seed: rows, statuses, or bytes."""
    if record in BYTES:
        return bytes_of(record, count, seed)
    return statuses(count, seed) if record == CURRENT_STATUS else rows_of(record, count, seed)


def packages() -> Mapping[str, str]:
    """Return the packages that idioms depend on, as their index calls them."""
    return {one.package: one.package for one in IDIOMS.values() if one.package != "python"}
