"""CurrentStatus in Protobuf: the official library's bytes, from a message that is changed in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from schemas.errors import PayloadError
from schemas.formats.base import Peek, peeked
from schemas.formats.wire import fault_offset
from schemas.generated import current_status_pb2 as pb
from schemas.generated.runs import FROM_PROTOBUF, TO_PROTOBUF, fill_current_status
from schemas.layout import LAYOUT, RECORDS, ROOT
from schemas.messages import CurrentStatus

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

_Path = tuple[str, str, tuple[str | int, ...]]
_PATHS: Final[dict[_Path, _Path]] = {}
_FIELDS: Final = {f.name: f for f in LAYOUT.messages[ROOT]}


class Protobuf:
    """proto3 wire format of schemas/current_status.proto, by the official library (upb).

    `decode` checks the whole wire form (tags, lengths, UTF-8) at once; sections become records when they
    are first read. An enum number of a newer schema is kept, as proto3 wants it ("open enums"): its name is the number.
    """

    name = "protobuf"
    content_type = "application/x-protobuf"
    sequence_modulus: int | None = None
    header_only = False

    @property
    def blocks(self) -> Blocks | None:
        from schemas.formats.protobuf_blocks import ProtobufLayout  # noqa: PLC0415 - NumPy, which senders alone need

        return ProtobufLayout

    def encode(self, status: CurrentStatus) -> bytes:
        if status.encoders is None:
            message = pb.CurrentStatus()
            fill_current_status(status, message)
            return message.SerializeToString()
        state, pending = status.changes_for("protobuf")
        if state is None:
            state = _Mirror(status)
            status.keep("protobuf", state)
        elif pending:
            state.renew(status.units, pending)
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
    """The library's message beside a living status.

    It holds the library's sections, not their parts: a Python object for each part would cost more memory
    than the whole message.
    """

    __slots__ = ("message", "paths", "sections")

    def __init__(self, status: CurrentStatus) -> None:
        self.message = pb.CurrentStatus()
        fill_current_status(status, self.message)
        self.paths = tuple(_paths(ROOT, status, ()))
        self.sections: dict[str, Any] = {}

    def renew(self, units: list[Any], changed: list[int]) -> None:
        paths, sections, assign = self.paths, self.sections, TO_PROTOBUF
        for unit in changed:
            section, name, steps = paths[unit]
            part = sections.get(section)
            if part is None:
                part = sections[section] = getattr(self.message, section)
            if name:  # a record right in its section, as nearly all that move
                part = getattr(part, name)
            else:
                for step in steps:
                    part = getattr(part, step) if type(step) is str else part[step]
            record = units[unit]
            assign[type(record)](record, part)


def _paths(name: str, message: Any, path: tuple[str | int, ...]) -> Iterator[_Path]:
    """Yield (section, its record or "", steps if it is neither) for every unit, in the order of `units`."""
    section, record, steps = "", "", path[1:]
    if path:
        section = str(path[0])
    if len(path) == 2 and isinstance(path[1], str):
        record, steps = path[1], ()
    whole = _PATHS.setdefault((section, record, steps), (section, record, steps))  # one object for a fleet
    if name in RECORDS:
        yield whole
        return
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                yield whole
            scalars_done = True
            continue
        value = getattr(message, field.name)
        if field.repeated:
            for k, item in enumerate(value):
                yield from _paths(field.type_name, item, (*path, field.name, k))
        elif value is not None:
            yield from _paths(field.type_name, value, (*path, field.name))


class _Sections:
    """Makes a section's records from the parsed message when the section is first read."""

    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message

    def __call__(self, name: str) -> Any:
        field = _FIELDS[name]
        make = FROM_PROTOBUF[field.type_name]
        if field.repeated:
            return [make(item) for item in getattr(self.message, name)]
        return make(getattr(self.message, name)) if self.message.HasField(name) else None
