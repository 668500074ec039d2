"""CurrentStatus in Protobuf: the official library's bytes from a message that is kept and changed in place."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError, EncodeError

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.wire import fault_offset
from schemas.generated import current_status_pb2 as pb
from schemas.generated.runs import FROM_PROTOBUF, TO_PROTOBUF
from schemas.layout import LAYOUT, RECORDS, ROOT
from schemas.messages import CurrentStatus, units

_FIELDS: Final = {f.name: f for f in LAYOUT.messages[ROOT]}


class Protobuf:
    """proto3 wire format of schemas/current_status.proto, by the official library (upb).

    `decode` checks the whole wire form (tags, lengths, UTF-8) at once; sections become records when they
    are first read. An enum number of a newer schema raises PayloadError when its section is read.
    """

    name = "protobuf"
    content_type = "application/x-protobuf"
    sequence_modulus: int | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        state, pending = status.changes_for("protobuf")
        if state is None:
            state = _Mirror(status)
            status.keep("protobuf", state)
        elif pending:
            state.renew(pending)
            pending.clear()
        return state.message.SerializeToString()  # type: ignore[no-any-return]

    def decode(self, payload: bytes) -> CurrentStatus:
        try:
            message = pb.CurrentStatus.FromString(payload)
        except DecodeError:
            raise PayloadError(self.name, fault_offset(payload), "not the schema's wire form") from None
        return CurrentStatus(_Sections(message))

    def peek(self, payload: bytes) -> Peek:
        try:
            header = pb.HeaderOnly.FromString(payload).header
        except DecodeError:
            raise PayloadError(self.name, fault_offset(payload), "not the schema's wire form") from None
        return peeked(
            self.name, 0, header.vehicle_id, header.sequence_number, header.epoch, header.sampled_at_ms
        )


class _Mirror:
    """The library's message beside a living status, and its part for each unit."""

    __slots__ = ("message", "parts")

    def __init__(self, status: CurrentStatus) -> None:
        self.message = pb.CurrentStatus()
        _fill(self.message, ROOT, status)
        # (assign, ours, theirs) per unit, so that a change costs one call.
        pairs = zip(units(status), _parts(self.message, ROOT), strict=True)
        self.parts = [(TO_PROTOBUF[name], ours, theirs) for (name, ours), theirs in pairs]

    def renew(self, changed: list[int]) -> None:
        parts = self.parts
        for unit in changed:
            assign, ours, theirs = parts[unit]
            assign(ours, theirs)


def _fill(message: Any, name: str, source: Any) -> None:
    if name in TO_PROTOBUF:
        TO_PROTOBUF[name](source, message)
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            continue
        value = getattr(source, field.name)
        target = getattr(message, field.name)
        if field.repeated:
            for item in value:
                _fill(target.add(), field.type_name, item)
        elif value is not None:
            target.SetInParent()
            _fill(target, field.type_name, value)


def _parts(message: Any, name: str) -> list[Any]:
    """Return the library's objects in the order of `units`."""
    found: list[Any] = []
    if name in RECORDS:
        return [message]
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                found.append(message)
            scalars_done = True
        elif field.repeated:
            for item in getattr(message, field.name):
                found += _parts(item, field.type_name)
        elif message.HasField(field.name):
            found += _parts(getattr(message, field.name), field.type_name)
    return found


class _Sections:
    """Makes a section's records from the parsed message when the section is first read."""

    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message

    def __call__(self, name: str) -> Any:
        field = _FIELDS[name]
        make = FROM_PROTOBUF[field.type_name]
        try:
            if field.repeated:
                return [make(item) for item in getattr(self.message, name)]
            return make(getattr(self.message, name)) if self.message.HasField(name) else None
        except IndexError:
            raise PayloadError(
                "protobuf", None, f"{name}: an enum number that schema 1 does not know"
            ) from None
