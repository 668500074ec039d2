"""The table of formats: one file and one line here for each."""

from __future__ import annotations

from typing import Final

from schemas.formats.base import Format, Peek
from schemas.formats.json import Json
from schemas.formats.protobuf import Protobuf

FORMATS: Final[dict[str, Format]] = {f.name: f for f in (Json(), Protobuf())}

__all__ = ["FORMATS", "Format", "Peek"]
