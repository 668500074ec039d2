"""CurrentStatus in Avro: single-object encoding, so that every payload names its writer's schema."""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.chunks import Chunks
from schemas.formats.scalars import zigzag
from schemas.generated.records import Document
from schemas.generated.runs import AVRO
from schemas.layout import LAYOUT, RECORDS, ROOT
from schemas.messages import CurrentStatus

_MARKER: Final = b"\xc3\x01"  # Avro 1.11, "Single-object encoding": marker, fingerprint, body
_VARINT: Final = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_HEADER: Final = re.compile(
    rb"\x02\x22([!-~]{17})" + _VARINT + _VARINT + _VARINT + rb"[\x00-\x7f]", re.DOTALL
)


def _fingerprint(schema: Any) -> bytes:
    """Return the schema's CRC-64-AVRO, little-endian."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


class Avro:
    """Avro's binary encoding of current_status.avsc behind the single-object header.

    `decode` reads and checks the whole payload. A reader can read what writers wrote whose schemas it was
    given (`learn`): Avro promises no more.
    """

    name = "avro"
    content_type = "application/avro"
    sequence_modulus: int | None = None

    def __init__(self) -> None:
        text = (Path(__file__).parent.parent / "current_status.avsc").read_text()
        self.schema = parse_schema(json.loads(text))
        self.prefix = _MARKER + _fingerprint(json.loads(text))
        self._writers = {self.prefix: self.schema}

    def learn(self, schema: dict[str, Any]) -> bytes:
        """Let `decode` read another writer's payloads; return the 10 bytes with which they begin."""
        prefix = _MARKER + _fingerprint(schema)
        self._writers[prefix] = parse_schema(schema)
        return prefix

    def encode(self, status: CurrentStatus) -> bytes:
        state, pending = status.changes_for("avro")
        if state is None:
            state = Chunks(b"")
            state.literal(self.prefix)
            _write(state, ROOT, status)
            status.keep("avro", state)
        elif pending:
            state.renew(pending)
            pending.clear()
        return state.payload()  # type: ignore[no-any-return]

    def decode(self, payload: bytes) -> CurrentStatus:
        writer = self._writer(payload)
        stream = BytesIO(payload)
        stream.seek(10)
        try:
            content = fastavro.schemaless_reader(stream, writer, self.schema)
            if stream.tell() != len(payload):
                raise PayloadError(self.name, stream.tell(), "bytes after the end")
            return CurrentStatus.of(msgspec.convert(content, Document))
        except PayloadError:
            raise
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever its reading runs into
            raise PayloadError(self.name, min(stream.tell(), len(payload)), _said(error)) from None

    def peek(self, payload: bytes) -> Peek:
        if not payload.startswith(self.prefix):
            return self._peek_slowly(payload)
        match = _HEADER.match(payload, 10)
        if match is None:
            return self._peek_slowly(payload)
        vehicle_id, _, sequence, sampled_at_ms = match.groups()
        at = match.end()
        try:
            for _ in range(2):  # trip_id, software_release
                at += 1 + (payload[at] >> 1) if payload[at] < 128 else len(payload)
            epoch = payload[at]
        except IndexError:
            return self._peek_slowly(payload)
        if epoch & 0x81 or len(sampled_at_ms) > 9:
            return self._peek_slowly(payload)
        return peeked(self.name, 10, vehicle_id.decode(), _long(sequence), epoch >> 1, _long(sampled_at_ms))

    def _peek_slowly(self, payload: bytes) -> Peek:
        header = self.decode(payload).header
        if header is None:
            raise PayloadError(self.name, 10, "no header")
        return peeked(
            self.name, 10, header.vehicle_id, header.sequence_number, header.epoch, header.sampled_at_ms
        )

    def _writer(self, payload: bytes) -> Any:
        writer = self._writers.get(payload[:10])
        if writer is None:
            raise PayloadError(self.name, 0, "does not begin with the fingerprint of a known schema")
        return writer


def _long(data: bytes) -> int:
    """Return a zigzag varint that is known to be positive."""
    number = 0
    for byte in reversed(data):
        number = number << 7 | byte & 127
    return number >> 1


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _write(out: Chunks[bytes], name: str, message: Any) -> None:
    if name in RECORDS:
        out.unit(AVRO[name], message)
        return
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                out.unit(AVRO[name], message)
            scalars_done = True
            continue
        value = getattr(message, field.name)
        if field.repeated:
            _write_array(out, field.type_name, value)
        elif value is None:
            out.literal(b"\x00")  # the union's first branch, null
        else:
            out.literal(b"\x02")
            _write(out, field.type_name, value)


def _write_array(out: Chunks[bytes], name: str, items: list[Any]) -> None:
    if items:
        out.literal(zigzag(len(items)))
        for item in items:
            _write(out, name, item)
    out.literal(b"\x00")
