"""DTLS 1.2 with a pre-shared key (RFC 6347, RFC 4279) around CoAP's datagrams (RFC 7252, 9.1.3.1), by Mbed TLS.

A vehicle's identity is its vehicle id. The cipher suite is the one that CoAP asks for, TLS_PSK_WITH_AES_128_CCM_8 (RFC 6655).
Mbed TLS keeps the handshake's timers and sends lost flights again when it is asked; here it is asked each `TICK_S`.

A gateway that has started again knows no session, and nothing that it could say of that would prove anything. So a
vehicle that has sent and heard nothing for 10 s shakes hands anew, on the same port; the gateway keeps the old
session until the new handshake is over (RFC 6347, 4.2.8). What CoAP sends meanwhile waits; what is lost, CoAP repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mbedtls import tls
from mbedtls.exceptions import TLSError

SUITE: Final = "TLS-PSK-WITH-AES-128-CCM-8"
# A record's header, explicit nonce and tag (RFC 6347, 4.1; RFC 6655, 3 and 4).
OVERHEAD_BYTES: Final = 13 + 8 + 8
RECORD_MAX_BYTES: Final = 16_000
TICK_S: Final = 0.25
# A flight is sent again after 1, 2 and 4 s (RFC 6347, 4.2.4.1); 8 s later the handshake has failed.
FIRST_TIMEOUT_S: Final = 1.0
LAST_TIMEOUT_S: Final = 8.0
HEADER_BYTES: Final = 13
HANDSHAKE, APPLICATION_DATA = 22, 23
# Several records of a flight share a datagram up to this, which every path takes.
_DATAGRAM_BYTES: Final = 1_200
_STEPS_MAX: Final = 64

Transmit = Callable[[bytes, tuple[str, int]], None]


class Session:
    """One end of one association, without a socket.

    Attributes:
        over: the handshake is.
        failed: it never will be, or the peer has ended the association.
        challenged: a server wants the client to show its cookie first; nothing is kept of it.
    """

    def __init__(self, buffer: tls.TLSWrappedBuffer) -> None:
        self._buffer = buffer
        self.over = self.failed = self.challenged = False

    def step(self) -> list[bytes]:
        """Go on with the handshake as far as it goes now; return the datagrams to send."""
        out = b""
        for _ in range(_STEPS_MAX):
            try:
                self._buffer.do_handshake()
            except tls.WantWriteError:
                out += self._flushed()
            except tls.WantReadError:
                break
            except tls.HelloVerifyRequest:
                self.challenged = True
                break
            except ValueError:  # "handshake already over"
                self.over = True
                break
            except TLSError:
                self.failed = True
                break
        return list(datagrams(out + self._flushed()))

    def feed(self, datagram: bytes) -> None:
        """Take a datagram; one that is longer than ours are is lost: Mbed TLS would end the association for it."""
        if len(datagram) <= RECORD_MAX_BYTES + OVERHEAD_BYTES:
            self._buffer.receive_from_network(datagram)

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """Return what the peer has said, one datagram each, and the datagrams that answer it (flights sent again)."""
        said: list[bytes] = []
        room = bytearray(RECORD_MAX_BYTES)
        try:
            # `read` would stop at the end of what was fed, and leave what Mbed TLS has of it already.
            while length := self._buffer.readinto(room, RECORD_MAX_BYTES):  # type: ignore[arg-type]
                said.append(bytes(room[:length]))
        except (tls.WantReadError, tls.WantWriteError):
            pass
        except (TLSError, tls.RaggedEOF):
            self.failed = True
        return said, list(datagrams(self._flushed()))

    def write(self, content: bytes) -> bytes:
        """Return the record of one datagram; b"" where there is none, as on a link that loses it."""
        try:
            self._buffer.write(content)
        except (tls.WantReadError, tls.WantWriteError):
            return b""
        except TLSError:
            self.failed = True
            return b""
        return self._flushed()

    def leave(self) -> bytes:
        """Return the alert that says goodbye."""
        try:
            self._buffer.shutdown()
        except (tls.WantReadError, tls.WantWriteError, TLSError):
            return b""
        return self._flushed()

    def _flushed(self) -> bytes:
        out: bytes = self._buffer.peek_outgoing(1 << 16)
        self._buffer.consume_outgoing(len(out))
        return out


def datagrams(records: bytes) -> Iterator[bytes]:
    """Yield the records in datagrams, as many in each as fit."""
    begin = at = 0
    while at < len(records):
        end = at + HEADER_BYTES + int.from_bytes(records[at + 11 : at + HEADER_BYTES], "big")
        if at > begin and end - begin > _DATAGRAM_BYTES:
            yield records[begin:at]
            begin = at
        at = end
    if begin < at:
        yield records[begin:at]


def configuration(**keys: object) -> tls.DTLSConfiguration:
    return tls.DTLSConfiguration(
        **keys,  # type: ignore[arg-type]
        ciphers=(SUITE,),
        validate_certificates=False,  # there are none
        lowest_supported_version=tls.DTLSVersion.DTLSv1_2,
        handshake_timeout_min=FIRST_TIMEOUT_S,
        handshake_timeout_max=LAST_TIMEOUT_S,
    )


def nowhere(datagram: bytes, remote: tuple[str, int]) -> None:
    raise AssertionError(f"no socket for {len(datagram)} bytes to {remote}")
