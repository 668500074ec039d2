"""CurrentStatus in FlatBuffers: a buffer prepared by the official builder, then patched in place."""

from __future__ import annotations

from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Any, Final

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.flat_prepared import Prepared
from schemas.formats.flat_read import I32, U32, U64, VTABLE_3, VTABLE_10, read_fields, read_root
from schemas.layout import LAYOUT
from schemas.messages import CurrentStatus

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

# Slots in the header's vtable: the Protobuf numbers less one, after the vtable's two sizes.
_SLOT: Final = {f.name: f.number + 1 for f in LAYOUT.messages["Header"]}


class FlatBuffers:
    """schemas/current_status.fbs with every scalar written, so that each can be patched where it lies.

    `decode` checks every offset, length and string against the payload's end before it gives anything.
    """

    name = "flatbuffers"
    content_type = "application/x-flatbuffers"
    sequence_modulus: int | None = None
    header_only = False

    @property
    def blocks(self) -> Blocks | None:
        from schemas.formats.flat_blocks import FlatLayout  # noqa: PLC0415 - NumPy, which senders alone need

        return FlatLayout

    def encode(self, status: CurrentStatus) -> bytes:
        state, pending = status.changes_for("flatbuffers")
        if state is None or (pending and not state.renew(status.units, pending)):
            state = Prepared(status)
            status.keep("flatbuffers", state)
        elif pending:
            pending.clear()
        return bytes(state.buffer)

    def decode(self, payload: bytes) -> CurrentStatus:
        return CurrentStatus.of(read_root(payload))

    def read(self, payload: bytes, *paths: tuple[str, ...]) -> list[Any]:
        """Return single fields in place, as FlatBuffers is meant to be read; the rest is not looked at."""
        return read_fields(payload, paths)

    def peek(self, payload: bytes) -> Peek:
        try:
            root = U32(payload, 0)[0]
            vtable = root - I32(payload, root)[0]
            # unpack_from counts negative offsets from the end; a vtable there is a lie.
            if vtable < 0:
                raise PayloadError(self.name, root, "a vtable before the payload")
            size, _, slot = VTABLE_3(payload, vtable)
            if size < 6 or not slot:
                raise PayloadError(self.name, root, "no header")
            header = root + slot
            header += U32(payload, header)[0]
            vtable = header - I32(payload, header)[0]
            if vtable < 0:
                raise PayloadError(self.name, header, "a vtable before the payload")
            slots = VTABLE_10(payload, vtable)
            if slots[0] < 20 or 0 in (slots[2], slots[4], slots[5], slots[9]):
                raise PayloadError(self.name, header, "no header with vehicle id, sequence and epoch")
            text = header + slots[2]
            text += U32(payload, text)[0]
            end = text + 4 + U32(payload, text)[0]
            if end >= len(payload):
                raise PayloadError(self.name, text, "a string past the end")
            return peeked(
                self.name,
                header,
                payload[text + 4 : end].decode("ascii"),
                U64(payload, header + slots[4])[0],
                U32(payload, header + slots[9])[0],
                U64(payload, header + slots[5])[0],
            )
        except StructError:
            raise PayloadError(self.name, len(payload), "an offset past the end") from None
        except UnicodeDecodeError as error:
            raise PayloadError(self.name, error.start, "the vehicle id is not ASCII") from None


assert (_SLOT["vehicle_id"], _SLOT["sequence_number"], _SLOT["sampled_at_ms"], _SLOT["epoch"]) == (2, 4, 5, 9)
