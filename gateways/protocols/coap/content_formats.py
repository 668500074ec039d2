"""The Content-Formats by which a request says its format (RFC 7252, section 12.3); it decodes nothing."""

from __future__ import annotations

from typing import Final

from schemas.formats import FORMATS
from schemas.formats.media_types import formats_by_media_type

# Registered (RFC 7252, 12.3), and for those that are not, of the range for experiments.
_NUMBERS: Final = {
    "small": 0, "json": 50, "protobuf": 65_001, "flatbuffers": 65_002, "avro": 65_003, "msgpack": 65_004,
}  # fmt: skip


def content_formats(own: str) -> dict[int, str]:
    """Return the Content-Formats that a gateway of the format `own` knows, each with its media type."""
    kept = formats_by_media_type(own).values()
    return {
        number: FORMATS[name].content_type
        for name, number in _NUMBERS.items()
        if any(one.name == name for one in kept)
    }
