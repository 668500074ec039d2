"""What a CoAP server here offers (RFC 6690): the list of links at /.well-known/core, and its media types."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import islice
from typing import Final
from urllib.parse import quote

from aiocoap import Message
from aiocoap.numbers.codes import BAD_REQUEST, CONTENT, NOT_ACCEPTABLE

WELL_KNOWN_CORE: Final = (".well-known", "core")
LINK_FORMAT: Final = 40  # application/link-format (RFC 6690, 7.3)
OCTET_STREAM: Final = 42
RESOURCE_TYPE: Final = "ivsim.current-status"
_LINKS_MAX: Final = 1_000
_PLAIN: Final = "!$&'()*+,;=:@-._~"  # what a segment may have as it is (RFC 3986, 3.3)
_LARGEST_SIZE_EXPONENT: Final = 6


def links(paths: Iterable[tuple[str, ...]], types: tuple[int, ...], *, observable: bool) -> bytes:
    """Return the list of links (RFC 6690, 2), at most a thousand of them."""
    content = f"ct={types[0]}" if len(types) == 1 else f'ct="{" ".join(map(str, types))}"'
    attributes = f';rt="{RESOURCE_TYPE}";{content}' + (";obs" if observable else "")
    # A segment's own slash is none between segments (RFC 7252, 6.4).
    found = [
        f"</{'/'.join(quote(segment, _PLAIN) for segment in path)}>{attributes}"
        for path in islice(paths, _LINKS_MAX)
    ]
    return ",".join([f"</{'/'.join(WELL_KNOWN_CORE)}>;ct={LINK_FORMAT}", *found]).encode()


def answer(request: Message, body: bytes) -> Message:
    """Return the answer to a GET of the list, block-wise where it is long (RFC 7959, 2.4)."""
    if request.accept not in (None, LINK_FORMAT):
        return Message(code=NOT_ACCEPTABLE)
    block = request.opt.block2
    number, exponent = (
        (0, _LARGEST_SIZE_EXPONENT) if block is None else (block.block_number, block.size_exponent)
    )
    exponent = min(exponent, _LARGEST_SIZE_EXPONENT)
    size = 1 << (exponent + 4)
    start = number * size
    if start >= len(body):
        return Message(code=BAD_REQUEST)
    message = Message(code=CONTENT, payload=body[start : start + size])
    message.opt.content_format = LINK_FORMAT
    if len(body) > size or number:
        message.opt.block2 = (number, start + size < len(body), exponent)
        message.opt.etag = zlib.crc32(body).to_bytes(4, "big")
    return message
