"""CoAP's ping: an Empty confirmable message, which any endpoint answers with a Reset (RFC 7252, 4.3)."""

from __future__ import annotations

import secrets
import socket
import time
from typing import Final

from aiocoap.numbers.types import CON, RST

ASK_S: Final = 0.5
_VERSION: Final = 1 << 6
_EMPTY: Final = 0


def ping(host: str, port: int, timeout_s: float) -> None:
    """Return when an endpoint answers there; OSError says why none does. Every half second it asks anew."""
    head = secrets.token_bytes(2)
    question = bytes((_VERSION | int(CON) << 4, _EMPTY)) + head
    answer = bytes((_VERSION | int(RST) << 4, _EMPTY)) + head
    family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    until_s = time.monotonic() + timeout_s
    with socket.socket(family, kind, number) as sock:
        sock.connect(address)
        while (left_s := until_s - time.monotonic()) > 0:
            sock.settimeout(min(ASK_S, left_s))
            sock.send(question)
            try:
                if sock.recv(64) == answer:
                    return
            except TimeoutError:
                pass
    raise TimeoutError(f"no Reset to CoAP's ping within {timeout_s:g} s")
