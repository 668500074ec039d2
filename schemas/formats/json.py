"""CurrentStatus in JSON: the canonical proto3 mapping."""

from __future__ import annotations

from google.protobuf import json_format

from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.messages import CurrentStatus


class Json:
    """Canonical proto3 JSON, defaults printed, no spaces."""

    name = "json"
    content_type = "application/json"
    sequence_modulus: int | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        text = json_format.MessageToJson(status, indent=None, always_print_fields_with_no_presence=True)
        return text.encode()

    def decode(self, payload: bytes) -> CurrentStatus:
        try:
            return json_format.Parse(payload, CurrentStatus())
        except (json_format.ParseError, UnicodeDecodeError) as error:
            raise PayloadError(self.name, None, str(error)) from None

    def peek(self, payload: bytes) -> Peek:
        header = self.decode(payload).header
        if not (header.vehicle_id and header.sequence_number and header.epoch):
            raise PayloadError(self.name, 0, "no header with vehicle id, sequence and epoch")
        sampled_at_ns = header.sampled_at_ms * 1_000_000
        return Peek(header.sequence_number, header.epoch, sampled_at_ns, header.vehicle_id)
