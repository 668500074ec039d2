"""CurrentStatus in JSON: the canonical proto3 mapping, defaults printed, no spaces."""

from __future__ import annotations

import json
import re
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.chunks import Chunks
from schemas.formats.faults import refusal
from schemas.generated.records import Document
from schemas.generated.runs import JSON, whole_json_current_status
from schemas.layout import LAYOUT, ROOT
from schemas.messages import CurrentStatus

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

# Lax, as the mapping asks: 64-bit integers are strings, and 1.0 is an integer too.
_DECODER: Final = msgspec.json.Decoder(Document, strict=False)


class _Header(msgspec.Struct, rename="camel"):
    vehicle_id: str = ""
    sequence_number: int = 0
    sampled_at_ms: int = 0
    epoch: int = 0


class _HeaderOnly(msgspec.Struct):
    header: _Header


_PEEKER: Final = msgspec.json.Decoder(_HeaderOnly, strict=False)
# Our own encoder's beginning; anything else goes through the library.
_BEGINNING: Final = re.compile(
    rb'\{"header":\{"vehicleId":"([!#-\[\]-~]{1,64})","schemaVersion":\d{1,9},"sequenceNumber":"(\d{1,18})",'
    rb'"sampledAtMs":"(\d{1,18})","cause":"[A-Z_]{1,32}","tripId":"[!#-\[\]-~]{0,64}",'
    rb'"softwareRelease":"[!#-\[\]-~]{0,64}","epoch":(\d{1,9})\}'
)
# Left out of a payload, they leave its names and braces: numbers, words of enums, and by what `true` and `false` differ.
_VALUES: Final = b"0123456789.+-_ABCDEFGHIJKLMNOPQRSTUVWXYZtrufals"
# Of a fleet's payloads, some a vehicle; 9 MB at most.
_MOST_SHAPES: Final = 65_536


class Json:
    """Canonical proto3 JSON; unchanged parts of a living status keep their text.

    `decode` reads and checks the whole payload: types, ranges, enum names. Unknown names are passed over. A name that
    stands twice in an object, known or not, is refused.
    """

    name = "json"
    content_type = "application/json"
    sequence_modulus: int | None = None
    header_only = False
    blocks: Blocks | None = None

    def __init__(self) -> None:
        # Digests of the shapes in which each object has different names.
        self._shapes: set[bytes] = set()

    def encode(self, status: CurrentStatus) -> bytes:
        if status.encoders is None:
            return f"{{{whole_json_current_status(status)}}}".encode()
        state, pending = status.changes_for("json")
        if state is None:
            state = Chunks("", JSON)
            _write(state, ROOT, status)
            status.keep("json", state)
        elif pending:
            state.renew(status.units, pending)
            pending.clear()
        return state.payload().encode()  # type: ignore[no-any-return]

    def decode(self, payload: bytes) -> CurrentStatus:
        try:
            document = _DECODER.decode(payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise refusal(self.name, payload, error) from None
        self._refuse_twice(payload)
        return CurrentStatus.of(document)

    def peek(self, payload: bytes) -> Peek:
        match = _BEGINNING.match(payload)
        if match is not None:
            vehicle_id, sequence, sampled_at_ms, epoch = match.groups()
            return peeked(self.name, 0, vehicle_id.decode(), int(sequence), int(epoch), int(sampled_at_ms))
        try:
            header = _PEEKER.decode(payload).header
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise refusal(self.name, payload, error) from None
        self._refuse_twice(payload)
        if min(header.sequence_number, header.epoch, header.sampled_at_ms) < 0:
            raise PayloadError(self.name, 0, "a number of the header is negative")
        return peeked(
            self.name, 0, header.vehicle_id, header.sequence_number, header.epoch, header.sampled_at_ms
        )

    def _refuse_twice(self, payload: bytes) -> None:
        """Refuse a name that stands twice in an object of a payload that is JSON.

        msgspec does not say it, and json takes five times as long as the whole of `decode`. But nearly every payload is
        of one shape with another before it: without an escape, quotes and braces of both are at the same places, and
        names that differ in the shape differ in the payload.
        """
        digest = None if b"\\" in payload else sha256(_shape(payload)).digest()
        if digest in self._shapes:
            return
        alike = False

        def look(pairs: list[tuple[str, Any]]) -> None:
            nonlocal alike
            names = [name for name, _ in pairs]
            if len(set(names)) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                at = max(payload.rfind(f'"{twice}"'.encode(errors="replace")), 0)
                raise PayloadError(self.name, at, f"the name {twice[:40]!r} stands twice in an object")
            alike = alike or len({_shape(name.encode(errors="replace")) for name in names}) < len(names)

        try:
            # Numbers stay text, and control characters may be: neither is asked here.
            json.loads(payload, strict=False, object_pairs_hook=look, parse_int=str, parse_float=str)
        except (json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
            raise refusal(self.name, payload, error) from None
        if digest is not None and not alike:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes.add(digest)


def _shape(text: bytes) -> bytes:
    return text.translate(None, _VALUES)


def _write(out: Chunks[str], name: str, message: Any) -> None:
    out.literal("{")
    separator = ""
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                out.literal(separator)
                out.unit(message)
            scalars_done, separator = True, ","
            continue
        value = getattr(message, field.name)
        if value is None:
            continue
        out.literal(f'{separator}"{field.json_name}":')
        separator = ","
        if field.repeated:
            _write_list(out, field.type_name, value)
        else:
            _write(out, field.type_name, value)
    out.literal("}")


def _write_list(out: Chunks[str], name: str, items: list[Any]) -> None:
    out.literal("[")
    for k, item in enumerate(items):
        if k:
            out.literal(",")
        _write(out, name, item)
    out.literal("]")
