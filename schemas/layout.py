"""The schema as plain tables, read from the compiled Protobuf descriptor; knows no byte format."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from schemas.generated import current_status_pb2

SCALARS: Final = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FIXED64: "uint64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_SINT32: "int32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_MESSAGE: "message",
}


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    name: str
    json_name: str
    number: int
    kind: str  # one of SCALARS' values
    type_name: str  # of the enum or message; empty for the others
    repeated: bool

    @property
    def is_record(self) -> bool:
        """Whether this is one sampled value: the unit in which a living status changes."""
        return self.type_name in RECORDS

    @property
    def is_scalar(self) -> bool:
        return self.kind != "message"


@dataclass(frozen=True)
class Layout:
    """Every message and enum of one schema version, inner messages first."""

    messages: dict[str, tuple[Field, ...]]
    enums: dict[str, tuple[str, ...]]  # value names, by number


RECORDS: Final = frozenset({"Reading", "Counter", "Flag"})
ROOT: Final = "CurrentStatus"


def layout_of(file: FileDescriptor) -> Layout:
    """Return the tables of one compiled schema.

    Raises:
        ValueError: a message interleaves its scalars with other fields, or an enum's numbers have holes:
            the encoders count on one run of scalars and on numbers that are positions.
    """
    messages: dict[str, tuple[Field, ...]] = {}
    _add(file.message_types_by_name[ROOT], messages)
    enums = {
        name: tuple(value.name for value in sorted(enum.values, key=lambda v: v.number))
        for name, enum in file.enum_types_by_name.items()
    }
    for name, enum in file.enum_types_by_name.items():
        if sorted(v.number for v in enum.values) != list(range(len(enums[name]))):
            raise ValueError(f"enum {name}: its numbers must run from 0 without holes")
    return Layout(messages, enums)


def _add(message: Descriptor, messages: dict[str, tuple[Field, ...]]) -> None:
    for field in message.fields:
        if field.message_type is not None and field.message_type.name not in messages:
            _add(field.message_type, messages)
    fields = tuple(_field(f) for f in sorted(message.fields, key=lambda f: f.number))
    changes = sum(a.is_scalar != b.is_scalar for a, b in pairwise(fields))
    scalars = [f.is_scalar for f in fields]
    if changes > 2 or (changes == 2 and scalars[0]):
        raise ValueError(f"message {message.name}: its scalar fields must be one run of numbers")
    messages[message.name] = fields


def _field(field: FieldDescriptor) -> Field:
    kind = SCALARS[field.type]
    named = field.message_type or field.enum_type
    return Field(
        name=field.name,
        json_name=field.json_name,
        number=field.number,
        kind=kind,
        type_name=named.name if named is not None else "",
        repeated=field.is_repeated,
    )


LAYOUT: Final = layout_of(current_status_pb2.DESCRIPTOR)
