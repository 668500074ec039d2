"""The table of formats: one file and one line here for each; plug-ins of `ivsim.formats` join it."""

from __future__ import annotations

from typing import Final

from schemas.formats.base import Format, Peek
from schemas.plugins import Plugin, Table, checked, made

# A format's library is loaded when the format is first asked for.
_ALL: Final = {
    "json": "schemas.formats.json:Json",
    "protobuf": "schemas.formats.protobuf:Protobuf",
    "flatbuffers": "schemas.formats.flatbuffers:FlatBuffers",
    "avro": "schemas.formats.avro:Avro",
    "msgpack": "schemas.formats.msgpack:MessagePack",
    "small": "schemas.formats.small:Small",
}
_PROMISED: Final = (
    "content_type", "blocks", "header_only", "sequence_modulus", "encode", "decode", "peek",
)  # fmt: skip


def _row(plugin: Plugin, found: object) -> Format:
    part: Format = checked(made(found), plugin.name, needs=("name", *_PROMISED))
    return part


FORMATS: Final[Table[Format]] = Table("ivsim.formats", _ALL, _row)
# Those that every part knows without asking: the twin takes no other but the run's own.
OWN_FORMATS: Final = tuple(_ALL)

__all__ = ["FORMATS", "OWN_FORMATS", "Format", "Peek"]
