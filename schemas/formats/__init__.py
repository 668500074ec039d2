"""The table of formats: one file and one line here for each."""

from __future__ import annotations

from typing import Final

from schemas.formats.avro import Avro
from schemas.formats.base import Format, Peek
from schemas.formats.flatbuffers import FlatBuffers
from schemas.formats.json import Json
from schemas.formats.msgpack import MessagePack
from schemas.formats.protobuf import Protobuf
from schemas.formats.small import Small

_ALL: Final[tuple[Format, ...]] = (Json(), Protobuf(), FlatBuffers(), Avro(), MessagePack(), Small())
FORMATS: Final[dict[str, Format]] = {f.name: f for f in _ALL}

__all__ = ["FORMATS", "Format", "Peek"]
