"""Where the bytes of an Avro payload lie, for payloads that are made in blocks."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from schemas.formats.blocks import Columns, Node, Scalar, Shape
from schemas.formats.slots import TEXT_BYTES, SlotLayout
from schemas.layout import LAYOUT
from schemas.scalars import avro_string, zigzag

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_WIDTHS: Final = {"float": 4, "double": 8, "enum": 1, "bool": 1, "uint32": 5, "int32": 5, "uint64": 10}


class AvroLayout(SlotLayout):
    """Avro: every scalar is there, an optional message behind its branch of a union, a list between count and 0."""

    def __init__(self, shape: Shape, columns: Columns, prefix: bytes) -> None:
        """Take what stands before each payload, too."""
        self._prefix = prefix
        super().__init__(shape, columns)

    def tag(self, scalar: Scalar) -> bytes:  # noqa: ARG002 - a layout's promise
        return b""

    def width(self, scalar: Scalar) -> int:
        return _WIDTHS.get(scalar.field.kind, TEXT_BYTES + 1)

    def value(self, scalar: Scalar, value: Any) -> bytes:
        kind = scalar.field.kind
        if kind == "string":
            return avro_string(value)
        if kind == "float":
            return _FLOAT.pack(value)
        if kind == "double":
            return _DOUBLE.pack(value)
        return bytes([value]) if kind == "bool" else zigzag(value)

    def head(self, node: Node) -> bytes:
        if node.parent < 0:
            return self._prefix
        return b"\x02" if self._optional(node) else b""

    def absent(self, node: Node) -> bytes:
        return b"\x00" if self._optional(node) else b""

    def signed(self, scalar: Scalar) -> bool:
        return scalar.field.kind != "bool"

    def fixed(self, scalar: Scalar) -> bool:  # noqa: ARG002 - a layout's promise
        return False

    def _optional(self, node: Node) -> bool:
        if node.parent < 0:
            return False
        owner = self.shape.nodes[node.parent].type_name
        return not next(f for f in LAYOUT.messages[owner] if f.number == node.number).repeated
