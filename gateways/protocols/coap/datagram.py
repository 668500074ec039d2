"""CoAP messages as bytes (RFC 7252, 3), read strictly into aiocoap's `Message`; opens no socket."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from aiocoap import Message
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.numbers.types import Type

from gateways.protocols.ends import ConnectError
from gateways.protocols.names import address_of

# For which an address of a name is waited for.
RESOLVE_S: Final = 10.0
_TOKEN_LENGTH_MAX: Final = 8
_PAYLOAD_MARKER: Final = 0xFF
_RESERVED_CLASSES: Final = frozenset({1, 6, 7})  # RFC 7252, 12.1
_TYPES: Final = tuple(Type)
# Options that mean something here; aiocoap decodes them.
READ: Final = {
    int(option): option
    for option in (
        OptionNumber.ETAG,
        OptionNumber.OBSERVE,
        OptionNumber.URI_PATH,
        OptionNumber.MAX_AGE,
        OptionNumber.BLOCK2,
        OptionNumber.BLOCK1,
        OptionNumber.NO_RESPONSE,
        OptionNumber.REQUEST_TAG,
        OptionNumber.OSCORE,
    )
}
# Critical options (odd numbers) that change nothing for a server with one host.
IGNORED_CRITICAL: Final = frozenset({OptionNumber.URI_HOST, OptionNumber.URI_PORT})
# Numbers of media types (RFC 7252, 12.3), of at most two bytes (5.10).
_MEDIA_TYPES: Final = {
    int(OptionNumber.CONTENT_FORMAT): "content_format",
    int(OptionNumber.ACCEPT): "accept",
}


class Remote(tuple[str, int]):
    """The other end's address, IPv4 or IPv6, and port."""

    __slots__ = ()

    @property
    def hostinfo(self) -> str:
        host = f"[{self[0]}]" if ":" in self[0] else self[0]
        return f"{host}:{self[1]}"


def decoded(datagram: bytes, remote: Remote) -> Message | None:
    """Return the message in `datagram`, or None when it is malformed.

    Not `Message.decode`: that keeps every option number and content format it ever met in an enumeration
    that never shrinks, so hostile datagrams would fill the memory. Unknown elective options are skipped,
    an unknown critical one is left in `message.bad_option` (RFC 7252, 5.4.1). Content-Format and Accept are
    plain numbers, or None, in `message.content_format` and `message.accept`.
    """
    if len(datagram) < 4 or datagram[0] >> 6 != 1:
        return None
    token_end = 4 + (datagram[0] & 0x0F)
    if token_end > 4 + _TOKEN_LENGTH_MAX or token_end > len(datagram):
        return None
    if datagram[1] == 0 and len(datagram) != 4:
        return None  # an Empty message is its header alone (RFC 7252, 4.1)
    if datagram[1] >> 5 in _RESERVED_CLASSES:
        return None
    message = Message(code=datagram[1])
    message.mtype = _TYPES[datagram[0] >> 4 & 3]
    message.mid = datagram[2] << 8 | datagram[3]
    message.token = datagram[4:token_end]
    message.remote = remote
    message.bad_option = message.content_format = message.accept = None
    try:
        _read_options(message, datagram, token_end)
    except (IndexError, ValueError):  # cut short, a reserved length, or no UTF-8
        return None
    return message


def _read_options(message: Message, datagram: bytes, at: int) -> None:
    number, end = 0, len(datagram)
    add = message.opt.add_option
    while at < end:
        first = datagram[at]
        at += 1
        if first == _PAYLOAD_MARKER:
            message.payload = datagram[at:]
            if not message.payload:
                raise ValueError("a payload marker without payload (RFC 7252, 3)")
            return
        delta, at = _extended(first >> 4, datagram, at)
        length, at = _extended(first & 0x0F, datagram, at)
        number += delta
        if at + length > end:
            raise ValueError("option cut short")
        option = READ.get(number)
        if option is not None:
            add(option.create_option(decode=datagram[at : at + length]))
            if number == OptionNumber.OSCORE:  # critical, and a bad one for who has no keys
                message.bad_option = number
        elif number in _MEDIA_TYPES and length <= 2:
            setattr(message, _MEDIA_TYPES[number], int.from_bytes(datagram[at : at + length], "big"))
        elif number & 1 and number not in IGNORED_CRITICAL:
            note_bad(message, number)
        at += length


def note_bad(message: Message, number: int) -> None:
    """Note an option that is not known and critical: the last one, for a proxy's say the most; a query hides none."""
    if message.bad_option is None or number != OptionNumber.URI_QUERY:
        message.bad_option = number


def _extended(nibble: int, datagram: bytes, at: int) -> tuple[int, int]:
    """Return an option's delta or length and the offset behind it (RFC 7252, 3.1)."""
    if nibble < 13:
        return nibble, at
    if nibble == 13:
        return datagram[at] + 13, at + 1
    if nibble == 14:
        return (datagram[at] << 8 | datagram[at + 1]) + 269, at + 2
    raise ValueError("reserved option length")


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of a literal address; of a name IPv4's."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def resolved(host: str, port: int) -> Remote:
    """Return the address of `host`: of a name the IPv4 one, within `RESOLVE_S`; at once for a literal. Raises ConnectError."""
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await address_of(host, port, socket.SOCK_DGRAM, family_of(host))
    except TimeoutError as error:
        raise ConnectError(f"{host}:{port}: no address in {RESOLVE_S:g} s") from error
    except OSError as error:
        raise ConnectError(f"{host}:{port}: {error}") from error
    address = found[4]
    return Remote((str(address[0]), int(address[1])))
