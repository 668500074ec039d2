"""Codecs whose payloads name their schema: framed by hand, or by Confluent's own serialisers."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ivsim.study.engines.pipe.schema_registry import MAGIC, Schema, frame, register, schema_of

ID_BYTES: Final = 5


class Registry(NamedTuple):
    """Where schemas are kept, and under which topic's name.

    Attributes:
        url: of the registry, without a slash at its end.
        topic: whose values the schemas are of; the same schema has the same one in every measurement.
    """

    url: str
    topic: str

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"


class Framing(NamedTuple):
    """An encode and a decode, with the frame."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def framed(
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    schema: Schema,
    registry: Registry,
    path: Sequence[int] | None = None,
) -> Framing:
    """Put the frame in front of what `encode` returns, and take it off before `decode`.

    A writer registers the schema with its first record. A reader asks for the schema of an id that it has not seen;
    ValueError when that is not the one that it knows.
    """
    heads: list[bytes] = []
    known: set[bytes] = set()
    rest = frame(0, path)[ID_BYTES:]
    size = ID_BYTES + len(rest)

    def write(made: Any) -> bytes:
        if not heads:
            heads.append(frame(register(registry.url, registry.subject, schema), path))
        return heads[0] + encode(made)

    def read(payload: bytes) -> Any:
        head = payload[:size]
        if head not in known:
            _check(head)
            known.add(head)
        return decode(payload[size:])

    def _check(head: bytes) -> None:
        if len(head) < size or head[0] != MAGIC or head[ID_BYTES:] != rest:
            raise ValueError(f"no frame of a schema registry: {head.hex()}")
        if schema_of(registry.url, int.from_bytes(head[1:ID_BYTES], "big")) != schema:
            raise ValueError(f"another schema: {head.hex()}")

    return Framing(write, read)


def protobuf_schema(kind: Any) -> Schema:
    """Return the schema of a message's class: its file's descriptor."""
    return Schema("PROTOBUF", base64.standard_b64encode(kind.DESCRIPTOR.file.serialized_pb).decode())


def confluent_avro(schema: dict[str, Any], registry: Registry) -> Framing:
    """Return Confluent's Avro serialiser and deserialiser."""
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer  # noqa: PLC0415 - half a second

    client, settings = _client(registry)
    writer = AvroSerializer(client, json.dumps(schema), conf=settings)
    return _confluent(registry, writer, AvroDeserializer(client, conf=settings))


def confluent_json(schema: dict[str, Any], registry: Registry, *, validate: bool) -> Framing:
    """Return Confluent's JSON serialiser and deserialiser; `validate` is what they do unless they are told not to."""
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer  # noqa: PLC0415

    client, settings = _client(registry)
    settings["validate"] = validate
    text = json.dumps(schema)
    writer = JSONSerializer(text, client, conf=settings)
    return _confluent(registry, writer, JSONDeserializer(text, schema_registry_client=client, conf=settings))


def confluent_protobuf(kind: Any, registry: Registry) -> Framing:
    """Return Confluent's Protobuf serialiser and deserialiser of a message's class."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer  # noqa: PLC0415

    client, settings = _client(registry)
    writer = ProtobufSerializer(kind, client, conf=settings)
    return _confluent(registry, writer, ProtobufDeserializer(kind, settings, client))


def _client(registry: Registry) -> tuple[Any, dict[str, Any]]:
    from confluent_kafka.schema_registry import (  # noqa: PLC0415 - it loads half a second of Python
        SchemaRegistryClient,
        topic_subject_name_strategy,
    )

    # Its HTTP client goes by the environment's proxy, which does not know our loopback.
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    os.environ["no_proxy"] = f"{spared},{urlsplit(registry.url).hostname}".lstrip(",")
    # Its own choice of a subject asks the registry for more than the two calls.
    return SchemaRegistryClient({"url": registry.url}), {"subject.name.strategy": topic_subject_name_strategy}


def _confluent(registry: Registry, writer: Any, reader: Any) -> Framing:
    from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: PLC0415

    context = SerializationContext(registry.topic, MessageField.VALUE)
    return Framing(lambda made: writer(made, context), lambda payload: reader(payload, context))
