"""Where the bytes of a Protobuf payload lie, for payloads that are made in blocks."""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from schemas.formats.blocks import Node, Scalar
from schemas.formats.slots import TEXT_BYTES, SlotLayout
from schemas.generated import current_status_pb2 as pb
from schemas.scalars import varint

_FLOAT, _DOUBLE, _FIXED = Struct("<f"), Struct("<d"), Struct("<Q")
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5  # wire types (protobuf.dev, encoding)
_WIRE_TYPES: Final = {"float": _FOUR, "double": _EIGHT, "string": _LENGTH}
_WIDTHS: Final = {"float": 4, "double": 8, "enum": 1, "bool": 1, "uint32": 5, "int32": 5, "uint64": 10}


@cache
def _is_fixed(type_name: str, number: int) -> bool:
    fields = pb.DESCRIPTOR.message_types_by_name[type_name].fields_by_number
    return bool(fields[number].type == FieldDescriptor.TYPE_FIXED64)


class ProtobufLayout(SlotLayout):
    """proto3: a tag before each scalar, none for a default; tag and length before each message."""

    omits_defaults = True
    has_lengths = True

    def tag(self, scalar: Scalar) -> bytes:
        wire_type = _EIGHT if self.fixed(scalar) else _WIRE_TYPES.get(scalar.field.kind, _VARINT)
        return varint(scalar.field.number << 3 | wire_type)

    def width(self, scalar: Scalar) -> int:
        if self.fixed(scalar):
            return 8
        return _WIDTHS.get(scalar.field.kind, TEXT_BYTES + 1)

    def value(self, scalar: Scalar, value: Any) -> bytes:
        kind = scalar.field.kind
        if kind == "string":
            text = str(value).encode()
            return varint(len(text)) + text
        if kind == "float":
            return _FLOAT.pack(value)
        if kind == "double":
            return _DOUBLE.pack(value)
        if self.fixed(scalar):
            return _FIXED.pack(value)
        return varint((value << 1) ^ (value >> 63) if self.signed(scalar) else value)

    def head(self, node: Node) -> bytes:
        return varint(node.number << 3 | _LENGTH) if node.parent >= 0 else b""

    def absent(self, node: Node) -> bytes:  # noqa: ARG002 - a layout's promise
        return b""

    def signed(self, scalar: Scalar) -> bool:
        return scalar.field.kind == "int32"

    def fixed(self, scalar: Scalar) -> bool:
        return scalar.field.kind == "uint64" and _is_fixed(
            self.shape.nodes[scalar.node].type_name, scalar.field.number
        )
