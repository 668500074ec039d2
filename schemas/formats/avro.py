"""CurrentStatus in Avro: single-object encoding, so that every payload names its writer's schema."""

from __future__ import annotations

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro
import msgspec
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.chunks import Chunks
from schemas.generated.records import Document
from schemas.generated.runs import AVRO
from schemas.layout import LAYOUT, RECORDS, ROOT
from schemas.messages import CurrentStatus
from schemas.scalars import zigzag

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

_MARKER: Final = b"\xc3\x01"  # Avro 1.11, "Single-object encoding": marker, fingerprint, body


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
    header_only = False

    def __init__(self) -> None:
        text = (Path(__file__).parent.parent / "current_status.avsc").read_text()
        self.schema = parse_schema(json.loads(text))
        self.prefix = _MARKER + _fingerprint(json.loads(text))
        self._beginning = self.prefix + b"\x02\x22"  # a header, and a vehicle id of 17 characters
        self._writers = {self.prefix: self.schema}

    @property
    def blocks(self) -> Blocks | None:
        from schemas.formats.avro_blocks import AvroLayout  # noqa: PLC0415 - NumPy, which senders alone need

        return partial(AvroLayout, prefix=self.prefix)

    def learn(self, schema: dict[str, Any]) -> bytes:
        """Let `decode` read another writer's payloads; return the 10 bytes with which they begin."""
        prefix = _MARKER + _fingerprint(schema)
        self._writers[prefix] = parse_schema(schema)
        return prefix

    def encode(self, status: CurrentStatus) -> bytes:
        state, pending = status.changes_for("avro")
        if state is None:
            state = Chunks(b"", AVRO)
            state.literal(self.prefix)
            _write(state, ROOT, status)
            status.keep("avro", state)
        elif pending:
            state.renew(status.units, pending)
            pending.clear()
        return state.payload()  # type: ignore[no-any-return]

    def decode(self, payload: bytes) -> CurrentStatus:
        writer = self._writer(payload)
        stream = BytesIO(payload)
        stream.seek(10)
        try:
            content = fastavro.schemaless_reader(stream, writer, self.schema)
            document = msgspec.convert(content, Document)
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever its reading runs into
            raise PayloadError(self.name, min(stream.tell(), len(payload)), _said(error)) from None
        if stream.tell() != len(payload):
            raise PayloadError(self.name, stream.tell(), "bytes after the end")
        return CurrentStatus.of(document)

    def peek(self, payload: bytes) -> Peek:
        # Our own encoder's beginning, read byte by byte; anything else goes through `decode`.
        if payload[:12] != self._beginning:
            return self._peek_slowly(payload)
        try:
            at = 30 if payload[29] < 128 else 31
            low, high = payload[at], payload[at + 1]
            if low < 128:
                sequence, at = low, at + 1
            elif high < 128:
                sequence, at = low & 127 | high << 7, at + 2
            else:
                at, sequence = _uvarint(payload, at)
            word = int.from_bytes(payload[at : at + 6], "little")
            if (
                word & 0x8080_8080_8080 != 0x80_8080_8080 or payload[at + 6] > 127
            ):  # not six bytes, not an enum
                return self._peek_slowly(payload)
            at += 7
            at += 1 + (payload[at] >> 1)  # trip_id
            at += 1 + (payload[at] >> 1)  # software_release
            epoch = payload[at]
            vehicle_id = payload[12:29].decode("ascii")
        except (IndexError, UnicodeDecodeError):
            return self._peek_slowly(payload)
        if epoch > 127 or (sequence | epoch) & 1:
            return self._peek_slowly(payload)
        sampled_at_ms = (
            (word & 0x7F)
            | (word >> 1 & 0x3F80)
            | (word >> 2 & 0x1F_C000)
            | (word >> 3 & 0xFE0_0000)
            | (word >> 4 & 0x7_F000_0000)
            | (word >> 5 & 0x3F8_0000_0000)
        ) >> 1
        return peeked(self.name, 10, vehicle_id, sequence >> 1, epoch >> 1, sampled_at_ms)

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


def _uvarint(payload: bytes, at: int) -> tuple[int, int]:
    """Return (where it ends, the number) of the varint at `at`; IndexError past the end."""
    byte = payload[at]
    number, shift = byte & 127, 7
    while byte > 127 and shift < 70:
        at += 1
        byte = payload[at]
        number |= (byte & 127) << shift
        shift += 7
    return at + 1, number


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _write(out: Chunks[bytes], name: str, message: Any) -> None:
    if name in RECORDS:
        out.unit(message)
        return
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                out.unit(message)
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
