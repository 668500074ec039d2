"""CurrentStatus in JSON: the canonical proto3 mapping, defaults printed, no spaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.chunks import Chunks
from schemas.formats.faults import refusal
from schemas.generated.records import Document, Header
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


class Json:
    """Canonical proto3 JSON; unchanged parts of a living status keep their text.

    `decode` reads and checks the whole payload: types, ranges, enum names. Unknown names are passed over. Of a name that stands
    twice in an object the last one counts (RFC 8259, 4, leaves it open), but a payload of which `peek` would say another
    vehicle, sequence, time or epoch than its header is refused.
    """

    name = "json"
    content_type = "application/json"
    sequence_modulus: int | None = None
    header_only = False
    blocks: Blocks | None = None

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
        begun = _BEGINNING.match(payload)
        if begun is not None and not _same(begun, document.header):
            raise PayloadError(self.name, payload.rfind(b'"header"'), "a second header says another message")
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
        if min(header.sequence_number, header.epoch, header.sampled_at_ms) < 0:
            raise PayloadError(self.name, 0, "a number of the header is negative")
        return peeked(
            self.name, 0, header.vehicle_id, header.sequence_number, header.epoch, header.sampled_at_ms
        )


def _same(begun: re.Match[bytes], header: Header | None) -> bool:
    """Say whether the first header of a payload, as `_BEGINNING` has it, names the message of the last one."""
    vehicle_id, *numbers = begun.groups()
    return header is not None and (
        vehicle_id == header.vehicle_id.encode()
        and [int(number) for number in numbers]
        == [header.sequence_number, header.sampled_at_ms, header.epoch]
    )


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
