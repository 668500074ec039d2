"""CurrentStatus in Protobuf: the schema's own byte form."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.messages import CurrentStatus


class Protobuf:
    """proto3 wire format of schemas/current_status.proto."""

    name = "protobuf"
    content_type = "application/x-protobuf"
    sequence_modulus: int | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        return status.SerializeToString()

    def decode(self, payload: bytes) -> CurrentStatus:
        try:
            return CurrentStatus.FromString(payload)
        except DecodeError as error:
            raise PayloadError(self.name, None, str(error)) from None

    def peek(self, payload: bytes) -> Peek:
        header = self.decode(payload).header
        if not (header.vehicle_id and header.sequence_number and header.epoch):
            raise PayloadError(self.name, 0, "no header with vehicle id, sequence and epoch")
        sampled_at_ns = header.sampled_at_ms * 1_000_000
        return Peek(header.sequence_number, header.epoch, sampled_at_ns, header.vehicle_id)
