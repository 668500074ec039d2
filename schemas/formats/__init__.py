"""The table of formats: one file and one line here for each; plug-ins of `ivsim.formats` join it."""

from __future__ import annotations

from typing import Final

from schemas.formats.avro import Avro
from schemas.formats.base import Format, Peek
from schemas.formats.flatbuffers import FlatBuffers
from schemas.formats.json import Json
from schemas.formats.msgpack import MessagePack
from schemas.formats.protobuf import Protobuf
from schemas.formats.small import Small
from schemas.plugins import Plugin, Table, checked, made

_ALL: Final[tuple[Format, ...]] = (Json(), Protobuf(), FlatBuffers(), Avro(), MessagePack(), Small())
_PROMISED: Final = (
    "content_type", "blocks", "header_only", "sequence_modulus", "encode", "decode", "peek",
)  # fmt: skip


def _row(plugin: Plugin, found: object) -> Format:
    part: Format = checked(made(found), plugin.name, needs=("name", *_PROMISED))
    return part


FORMATS: Final[Table[Format]] = Table("ivsim.formats", {f.name: f for f in _ALL}, _row)
# Those that every part knows without asking: the twin takes no other but the run's own.
OWN_FORMATS: Final = tuple(f.name for f in _ALL)

__all__ = ["FORMATS", "OWN_FORMATS", "Format", "Peek"]
