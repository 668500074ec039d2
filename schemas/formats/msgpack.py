"""CurrentStatus in MessagePack: JSON's names, defaults left out, by msgspec."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.faults import refusal
from schemas.generated.records import Document
from schemas.messages import CurrentStatus

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Document)


class _Header(msgspec.Struct, rename="camel"):
    vehicle_id: str = ""
    sequence_number: int = 0
    sampled_at_ms: int = 0
    epoch: int = 0


class _HeaderOnly(msgspec.Struct):
    header: _Header


_PEEKER: Final = msgspec.msgpack.Decoder(_HeaderOnly)
_UINT: Final = rb"([\x01-\x7f]|\xcc.|\xcd..|\xce.{4}|\xcf.{8})"
_STRING: Final = rb"(?:\xa0|[\xa1-\xbf][!-~]+)"
# Our own encoder's beginning for a periodic message; anything else goes through the library.
_BEGINNING: Final = re.compile(
    rb"[\x81-\x8f]\xa6header[\x84-\x88]\xa9vehicleId\xb1([!-~]{17})\xadschemaVersion[\x00-\x7f]"
    rb"\xaesequenceNumber" + _UINT + rb"\xabsampledAtMs" + _UINT + rb"(?:\xa5cause[\xa1-\xbf][A-Z_]+)?"
    rb"\xa6tripId" + _STRING + rb"\xafsoftwareRelease" + _STRING + rb"\xa5epoch" + _UINT,
    re.DOTALL,
)


class MessagePack:
    """MessagePack maps under the JSON names; a reader fills in the defaults that were left out.

    `decode` reads and checks the whole payload: types, ranges, enum names. Unknown names are passed over.
    """

    name = "msgpack"
    content_type = "application/vnd.msgpack"
    sequence_modulus: int | None = None
    header_only = False
    blocks: Blocks | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        return _ENCODER.encode(status.document())

    def decode(self, payload: bytes) -> CurrentStatus:
        try:
            return CurrentStatus.of(_DECODER.decode(payload))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise refusal(self.name, payload, error) from None

    def peek(self, payload: bytes) -> Peek:
        match = _BEGINNING.match(payload)
        if match is not None:
            vehicle_id, sequence, sampled_at_ms, epoch = match.groups()
            return peeked(
                self.name, 0, vehicle_id.decode(), _uint(sequence), _uint(epoch), _uint(sampled_at_ms)
            )
        try:
            header = _PEEKER.decode(payload).header
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise refusal(self.name, payload, error) from None
        if min(header.sequence_number, header.epoch, header.sampled_at_ms) < 0:
            raise PayloadError(self.name, 0, "a number of the header is negative")
        return peeked(
            self.name, 0, header.vehicle_id, header.sequence_number, header.epoch, header.sampled_at_ms
        )


def _uint(data: bytes) -> int:
    return data[0] if len(data) == 1 else int.from_bytes(data[1:], "big")
