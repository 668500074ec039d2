"""Codecs of rows whose payloads name their schema: those of `row_codecs` behind a frame, or by Confluent's serialisers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ivsim.study.engines.pipe import row_codecs as rows
from ivsim.study.engines.pipe.records import DECIMAL, EMPTY, INTEGER, NUMBER, TIME, WORD, Column
from ivsim.study.engines.pipe.registry_codecs import (
    Registry,
    confluent_avro,
    confluent_json,
    confluent_protobuf,
    framed,
    protobuf_schema,
)
from ivsim.study.engines.pipe.schema_registry import Schema


def protobuf_framed_codec(
    columns: Sequence[Column], registry: Registry, *, second: bool = False
) -> rows.Codec:
    kind = rows.message_class(columns, double=False, second=second)
    inner = rows.protobuf_codec_of(kind, columns)
    schema, path = protobuf_schema(kind), [int(second)]
    return inner._replace(**framed(inner.encode, inner.decode, schema, registry, path)._asdict())


def protobuf_framed_second_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    return protobuf_framed_codec(columns, registry, second=True)


def protobuf_confluent_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    kind = rows.message_class(columns, double=False)
    return rows.protobuf_codec_of(kind, columns)._replace(**confluent_protobuf(kind, registry)._asdict())


def avro_framed_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    inner = rows.avro_nullable_codec(columns)
    schema = Schema("AVRO", json.dumps(rows.avro_schema(columns, nullable=True)))
    return inner._replace(**framed(inner.encode, inner.decode, schema, registry)._asdict())


def avro_confluent_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    schema = rows.avro_schema(columns, nullable=True)
    return rows.Codec(rows.by_loop(columns), *confluent_avro(schema, registry))


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


def json_framed_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    inner = rows.json_codec(columns)
    schema = Schema("JSON", json.dumps(_json_schema(columns)))
    return inner._replace(**framed(inner.encode, inner.decode, schema, registry)._asdict())


def json_confluent_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    found = confluent_json(_json_schema(columns), registry, validate=False)
    return rows.Codec(rows.by_loop(columns), *found)


def json_validated_codec(columns: Sequence[Column], registry: Registry) -> rows.Codec:
    found = confluent_json(_json_schema(columns), registry, validate=True)
    return rows.Codec(rows.by_loop(columns), *found)
