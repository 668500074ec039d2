"""Codecs of the records that are rows of columns: each a library and a way of using it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import cbor2
import fastavro
import flatbuffers
import msgpack
import msgspec
import orjson
from flatbuffers import number_types, table
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ivsim.study.engines.pipe.records import DECIMAL, EMPTY, INTEGER, NUMBER, TIME, WORD, Column, Row

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


def by_loop(columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    """Fill a copy of a template, column by column, as the thesis does."""
    names = [column.name for column in columns]
    template = dict.fromkeys(names)

    def build(row: Row) -> dict[str, Any]:
        made: dict[str, Any] = template.copy()
        for place, value in enumerate(row):
            made[names[place]] = value.isoformat() if hasattr(value, "isoformat") else value
        return made

    return build


def by_zip(columns: Sequence[Column]) -> Callable[[Row], dict[str, Any]]:
    names = [column.name for column in columns]
    times = [place for place, column in enumerate(columns) if column.kind == TIME]

    def build(row: Row) -> dict[str, Any]:
        made = dict(zip(names, row, strict=True))
        for place in times:
            made[names[place]] = row[place].isoformat()
        return made

    return build


def json_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_loop(columns), lambda made: json.dumps(made).encode(), json.loads)


def json_compact_codec(columns: Sequence[Column]) -> Codec:
    encoder = json.JSONEncoder(separators=(",", ":"))
    return Codec(by_zip(columns), lambda made: encoder.encode(made).encode(), json.loads)


def orjson_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_zip(columns), orjson.dumps, orjson.loads)


def msgspec_json_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_zip(columns), msgspec.json.Encoder().encode, msgspec.json.Decoder().decode)


def msgpack_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_loop(columns), msgpack.packb, msgpack.unpackb)


def msgspec_msgpack_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_zip(columns), msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode)


def cbor_codec(columns: Sequence[Column]) -> Codec:
    return Codec(by_zip(columns), cbor2.dumps, cbor2.loads)


_AVRO: Final = {
    TIME: "string",
    NUMBER: "long",
    DECIMAL: "double",
    WORD: "string",
    INTEGER: "long",
    EMPTY: "double",
}


def avro_schema(columns: Sequence[Column], *, nullable: bool) -> dict[str, Any]:
    fields = [
        {"name": name, "type": ["null", _AVRO[kind]] if nullable else _AVRO[kind]} for name, kind in columns
    ]
    return {"type": "record", "name": "Row", "fields": fields}


def _avro(columns: Sequence[Column], *, nullable: bool) -> Codec:
    schema = fastavro.parse_schema(avro_schema(columns, nullable=nullable))
    loop = by_loop(columns)
    empty = {name: _DEFAULTS[kind] for name, kind in columns if kind == EMPTY}

    def encode(made: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, made)
        return out.getvalue()

    def decode(payload: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(payload), schema, None)

    # Without a union there is no null: an empty column has the default of its type.
    return Codec(loop if nullable else lambda row: loop(row) | empty, encode, decode)


def avro_nullable_codec(columns: Sequence[Column]) -> Codec:
    return _avro(columns, nullable=True)


def avro_plain_codec(columns: Sequence[Column]) -> Codec:
    return _avro(columns, nullable=False)


# FieldDescriptorProto.Type: 1 double, 2 float, 3 int64, 9 string
_PROTOBUF: Final = {TIME: 9, NUMBER: 3, DECIMAL: 2, WORD: 9, INTEGER: 3, EMPTY: 2}


def message_class(columns: Sequence[Column], *, double: bool, second: bool = False) -> Any:
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


def protobuf_codec(columns: Sequence[Column], *, double: bool = False) -> Codec:
    return protobuf_codec_of(message_class(columns, double=double), columns)


def protobuf_codec_of(kind: Any, columns: Sequence[Column]) -> Codec:
    names = [column.name for column in columns]

    def build(row: Row) -> Any:
        made = kind()
        for place, value in enumerate(row):
            if value is not None:
                setattr(made, names[place], value.isoformat() if hasattr(value, "isoformat") else value)
        return made

    return Codec(build, kind.SerializeToString, kind.FromString, _all_fields(columns))


def protobuf_double_codec(columns: Sequence[Column]) -> Codec:
    return protobuf_codec(columns, double=True)


def protobuf_keywords_codec(columns: Sequence[Column]) -> Codec:
    kind = message_class(columns, double=False)
    fill = by_zip(columns)
    # None is "not given" to the constructor.
    return Codec(lambda row: kind(**fill(row)), kind.SerializeToString, kind.FromString, _all_fields(columns))


_TEXTS: Final = (TIME, WORD)
_INTEGERS: Final = (NUMBER, INTEGER)


def flatbuffers_codec(columns: Sequence[Column]) -> Codec:
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
