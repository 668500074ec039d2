"""The table of idioms: a library and a way of using it, for the records that are rows of columns.

The same bytes may cost twice as much or half, by the way in which a library is used: a row of the table is a format
with its idiom. What a format costs falls into stages: *build* makes what the library takes out of a row, *encode* makes
bytes of it, *decode* makes an object of bytes, and *read* touches every field of that object. Most libraries make all
values in decode; there *read* is None. A new one is a function in `row_codecs`, or `registry_row_codecs`, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ivsim.study.engines.pipe import registry_row_codecs as framed
from ivsim.study.engines.pipe import row_codecs as rows
from ivsim.study.engines.pipe.records import (
    BLOCKS,
    BYTES,
    CURRENT_STATUS,
    bytes_of,
    columns_of,
    rows_of,
    statuses,
)
from ivsim.study.engines.pipe.registry_codecs import Registry
from ivsim.study.engines.pipe.row_codecs import Codec
from schemas.formats import FORMATS


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


IDIOMS: Final[dict[str, Idiom]] = {
    "json": Idiom("json", "python", "the standard library, as the thesis has it", rows.json_codec),
    "json-compact": Idiom("json", "python", "the standard library, without spaces", rows.json_compact_codec),
    "orjson": Idiom("json", "orjson", "orjson", rows.orjson_codec),
    "msgspec-json": Idiom("json", "msgspec", "msgspec", rows.msgspec_json_codec),
    "msgpack": Idiom("msgpack", "msgpack", "msgpack, as the thesis has it", rows.msgpack_codec),
    "msgspec": Idiom("msgpack", "msgspec", "msgspec", rows.msgspec_msgpack_codec),
    "avro": Idiom("avro", "fastavro", "fastavro, every field a union with null", rows.avro_nullable_codec),
    "avro-plain": Idiom("avro", "fastavro", "fastavro without unions", rows.avro_plain_codec),
    "protobuf": Idiom(
        "protobuf", "protobuf", "Google's, field by field with setattr, float", rows.protobuf_codec
    ),
    "protobuf-keywords": Idiom(
        "protobuf", "protobuf", "Google's, by keyword arguments, float", rows.protobuf_keywords_codec
    ),
    "protobuf-double": Idiom(
        "protobuf", "protobuf", "Google's, by setattr, double as Avro has", rows.protobuf_double_codec
    ),
    "flatbuffers": Idiom(
        "flatbuffers", "flatbuffers", "the official builder, in Python", rows.flatbuffers_codec
    ),
    "cbor": Idiom("cbor", "cbor2", "cbor2", rows.cbor_codec),
    "json-framed": Idiom(
        "json", "python", "json behind a registry's frame, 5 B", framed.json_framed_codec, registry=True
    ),
    "avro-framed": Idiom(
        "avro", "fastavro", "avro behind a registry's frame, 5 B", framed.avro_framed_codec, registry=True
    ),
    "protobuf-framed": Idiom(
        "protobuf",
        "protobuf",
        "protobuf behind a registry's frame, 6 B",
        framed.protobuf_framed_codec,
        registry=True,
    ),
    "protobuf-framed-second": Idiom(
        "protobuf",
        "protobuf",
        "the same as the second message of its file, 7 B",
        framed.protobuf_framed_second_codec,
        registry=True,
    ),
    "json-confluent": Idiom(
        "json",
        "confluent-kafka",
        "Confluent's serialiser for a registry, told not to validate",
        framed.json_confluent_codec,
        registry=True,
    ),
    "json-confluent-validated": Idiom(
        "json",
        "confluent-kafka",
        "the same as it comes: every record is validated at both ends",
        framed.json_validated_codec,
        registry=True,
    ),
    "avro-confluent": Idiom(
        "avro",
        "confluent-kafka",
        "Confluent's serialiser for a registry",
        framed.avro_confluent_codec,
        registry=True,
    ),
    "protobuf-confluent": Idiom(
        "protobuf",
        "confluent-kafka",
        "Confluent's serialiser for a registry",
        framed.protobuf_confluent_codec,
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
    return idiom.make(columns_of(record), Registry(registry, f"ivsim-{record}-{name}"))


def contents(record: str, count: int, seed: int) -> list[Any]:
    """Return the contents of a record, drawn from the seed: rows, statuses, or bytes."""
    if record in BYTES:
        return bytes_of(record, count, seed)
    return statuses(count, seed) if record == CURRENT_STATUS else rows_of(record, count, seed)


def packages() -> Mapping[str, str]:
    """Return the packages that idioms depend on, as their index calls them."""
    return {one.package: one.package for one in IDIOMS.values() if one.package != "python"}
