"""Which format a message says that it has: by its media type; decodes nothing."""

from __future__ import annotations

from typing import Final

from schemas.formats import FORMATS, OWN_FORMATS, Format

# It says nothing: the payload is of the gateway's own format.
OCTETS: Final = "application/octet-stream"
# What others write for a format beside its own content type.
_ALSO: Final = {
    "protobuf": ("application/protobuf", "application/vnd.google.protobuf"),
    "msgpack": ("application/msgpack", "application/x-msgpack"),
}


def plain(media_type: str) -> str:
    """Return a media type as it is looked up: lower case, without parameters (RFC 9110, 8.3.1)."""
    return media_type.partition(";")[0].strip().lower()


def formats_by_media_type(own: str) -> dict[str, Format]:
    """Return the formats that a message may say it has, by media type.

    A format whose sequences wrap is not among them unless it is the gateway's own: a gateway that starts must know how far
    each vehicle had come, and looks it up for its own format alone.

    Args:
        own: the gateway's format; its media type is its own even where another has the same.
    """
    names = [name for name in OWN_FORMATS if name != own and FORMATS[name].sequence_modulus is None]
    if own in FORMATS:
        names.append(own)
    found = {}
    for name in names:
        for media_type in (*_ALSO.get(name, ()), FORMATS[name].content_type):
            found[plain(media_type)] = FORMATS[name]
    return found
