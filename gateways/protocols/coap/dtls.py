"""DTLS 1.2 with a pre-shared key (RFC 6347, RFC 4279) around CoAP's datagrams (RFC 7252, 9.1.3.1), by Mbed TLS.

A vehicle's identity is its vehicle id. The cipher suite is the one that CoAP asks for, TLS_PSK_WITH_AES_128_CCM_8 (RFC 6655).
Mbed TLS keeps the handshake's timers and sends lost flights again when it is asked; here it is asked each `TICK_S`.

A gateway that has started again knows no session, and nothing that it could say of that would prove anything. So a
vehicle that has sent and heard nothing for `SILENT_S` shakes hands anew, on the same port; the gateway keeps the old
session until the new handshake is over (RFC 6347, 4.2.8). What CoAP sends meanwhile waits; what is lost, CoAP repeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aiocoap import Message
from mbedtls import tls
from mbedtls.exceptions import TLSError

from gateways.protocols.coap.datagram import Remote
from gateways.protocols.ends import AccessRefusedError, ConnectError

SUITE: Final = "TLS-PSK-WITH-AES-128-CCM-8"
# A record's header, explicit nonce and tag (RFC 6347, 4.1; RFC 6655, 3 and 4).
OVERHEAD_BYTES: Final = 13 + 8 + 8
RECORD_MAX_BYTES: Final = 16_000
SILENT_S: Final = 10.0
TICK_S: Final = 0.25
# A flight is sent again after 1, 2 and 4 s (RFC 6347, 4.2.4.1); 8 s later the handshake has failed.
FIRST_TIMEOUT_S: Final = 1.0
LAST_TIMEOUT_S: Final = 8.0
HANDSHAKE_S: Final = 30.0
_HEADER_BYTES: Final = 13
_HANDSHAKE, _APPLICATION_DATA = 22, 23
_CLIENT_HELLO: Final = 1
# Several records of a flight share a datagram up to this, which every path takes.
_DATAGRAM_BYTES: Final = 1_200
_WAITING_MAX: Final = 16
_PENDING_MAX: Final = 2_048
_STEPS_MAX: Final = 64
_NAMED_MAX: Final = 1_000
_LOG = logging.getLogger(__name__)

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
        end = at + _HEADER_BYTES + int.from_bytes(records[at + 11 : at + _HEADER_BYTES], "big")
        if at > begin and end - begin > _DATAGRAM_BYTES:
            yield records[begin:at]
            begin = at
        at = end
    if begin < at:
        yield records[begin:at]


class DtlsClient:
    """A vehicle's end: one association with the gateway, made anew when that is silent.

    Attributes:
        transmit: sends a datagram; its socket's owner sets it.
    """

    def __init__(self, identity: str, key: bytes) -> None:
        self._identity = identity
        self._context = tls.ClientContext(_configuration(pre_shared_key=(identity, key)))
        self._session: Session | None = None
        self._pending: Session | None = None
        self._remote: tuple[str, int] = ("", 0)
        self._waiting: deque[bytes] = deque(maxlen=_WAITING_MAX)
        self._unheard_since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first: asyncio.Future[None] | None = None
        self.transmit: Transmit = _nowhere

    async def connect(self, remote: Remote, timeout_s: float) -> None:
        """Return once there is an association. Raises ConnectError, and AccessRefusedError where the key is refused."""
        if self._session is not None:
            return
        self._remote = remote
        self._first = asyncio.get_running_loop().create_future()
        self._begin()
        try:
            async with asyncio.timeout(timeout_s):
                await self._first
        except TimeoutError:
            self._end()
            raise ConnectError(f"DTLS at {remote.hostinfo}: no handshake within {timeout_s:g} s") from None
        finally:
            self._first = None

    def outgoing(self, datagram: bytes, remote: tuple[str, int]) -> None:
        """Send a datagram in the association, or keep it for the next one."""
        del remote  # the gateway's; vehicles know nobody else
        now_s = asyncio.get_running_loop().time()
        if self._unheard_since_s is None:
            self._unheard_since_s = now_s
        silent = now_s - self._unheard_since_s > SILENT_S
        if self._session is None or silent:
            self._waiting.append(datagram)
            if self._pending is None:
                self._begin()
            return
        self._send(self._session, datagram)

    def incoming(self, datagram: bytes, remote: Remote) -> list[bytes]:
        """Return the CoAP messages in a datagram."""
        if remote != self._remote:
            return []
        if self._pending is not None and datagram[:1] != bytes((_APPLICATION_DATA,)):
            self._pending.feed(datagram)
            self._step(heard=True)
            return []
        if self._session is None:
            return []
        self._session.feed(datagram)
        said, answers = self._session.read()
        for answer in answers:
            self.transmit(answer, self._remote)
        if self._session.failed:
            self._session = None
        if said:
            self._unheard_since_s = None
        return said

    def close(self) -> None:
        """Say goodbye, and forget the association; idempotent."""
        if self._session is not None:
            for record in datagrams(self._session.leave()):
                self.transmit(record, self._remote)
        self._session = None
        self._end()

    def _begin(self) -> None:
        self._pending = Session(self._context.wrap_buffers(None))
        self._step()

    def _end(self) -> None:
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self, *, heard: bool = False) -> None:
        pending = self._pending
        assert pending is not None
        for datagram in pending.step():
            self.transmit(datagram, self._remote)
        if pending.over:
            self._end()
            self._session, self._unheard_since_s = pending, None
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
            while self._waiting:
                self.outgoing(self._waiting.popleft(), self._remote)
        elif pending.failed:
            self._end()
            if self._first is not None and not self._first.done():
                self._first.set_exception(self._failure(refused=heard))
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _failure(self, *, refused: bool) -> ConnectError:
        host, port = self._remote
        if refused:
            return AccessRefusedError(f"DTLS at {host}:{port}: {self._identity} is refused")
        return ConnectError(f"DTLS at {host}:{port}: no answer to the handshake")

    def _tick(self) -> None:
        self._timer = None
        if self._pending is not None:
            self._step()

    def _send(self, session: Session, datagram: bytes) -> None:
        if record := session.write(datagram):
            self.transmit(record, self._remote)
        if session.failed:
            self._session = None


class _Keys(Mapping[str, bytes]):
    """The vehicles' keys, and whom Mbed TLS has asked for last: its server does not say who the client is."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = keys
        self.asked = ""

    def __getitem__(self, identity: str) -> bytes:
        self.asked = identity
        return self._keys[identity]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class _Peer:
    """A handshake that goes on, or is over."""

    def __init__(self, session: Session, until_s: float) -> None:
        self.session, self.until_s, self.identity = session, until_s, ""


class DtlsServer:
    """The gateway's end: an association a vehicle; who it is, its key says.

    Until a client has shown the cookie that was sent to its address, nothing is kept of it (RFC 6347, 4.2.1).

    Attributes:
        counts: handshakes that came to their end, and those refused, by why.
        transmit: sends a datagram; its socket's owner sets it.
    """

    COUNTS: Final = ("dtls_handshakes", "dtls_unknown", "dtls_failed", "dtls_stray")

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = _Keys(keys)
        self._context = tls.ServerContext(_configuration(pre_shared_key_store=self._keys))
        self._peers: dict[Remote, _Peer] = {}
        self._pending: dict[Remote, _Peer] = {}
        self._remotes: dict[str, Remote] = {}
        self._named: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.counts = Counter(dict.fromkeys(self.COUNTS, 0))
        self.transmit: Transmit = _nowhere

    def outgoing(self, datagram: bytes, remote: tuple[str, int]) -> None:
        """Send a datagram in its association; without one it is lost."""
        peer = self._peers.get(Remote(remote))
        if peer is not None and (record := peer.session.write(datagram)):
            self.transmit(record, remote)

    def incoming(self, datagram: bytes, remote: Remote) -> list[bytes]:
        """Return the CoAP messages in a datagram."""
        if len(datagram) <= _HEADER_BYTES:
            self.counts["dtls_stray"] += 1
            return []
        hello = datagram[0] == _HANDSHAKE and not any(datagram[3:5]) and datagram[13] == _CLIENT_HELLO
        pending = self._pending.get(remote)
        if pending is not None and datagram[0] != _APPLICATION_DATA:
            pending.session.feed(datagram)
            self._step(remote, pending)
        elif hello:
            self._begin(datagram, remote)
        elif (peer := self._peers.get(remote)) is not None:
            return self._read(datagram, remote, peer)
        else:
            self.counts["dtls_stray"] += 1
        return []

    def unprotect(self, request: Message) -> Message:
        """Return the request with the `identity` of its association on it."""
        request.identity = self._peers[request.remote].identity
        return request

    def protect(self, request: Message, response: Message) -> Message:
        """Return the response as it is: its datagram is what is protected."""
        del request
        return response

    def close(self) -> None:
        """Forget every association; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending.clear()
        self._peers.clear()

    def _begin(self, datagram: bytes, remote: Remote) -> None:
        buffer = self._context.wrap_buffers()
        buffer.setcookieparam(remote.hostinfo.encode())
        peer = _Peer(Session(buffer), asyncio.get_running_loop().time() + HANDSHAKE_S)
        peer.session.feed(datagram)
        if len(self._pending) >= _PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        self._pending[remote] = peer
        self._step(remote, peer)

    def _step(self, remote: Remote, peer: _Peer) -> None:
        self._keys.asked = ""
        for out in peer.session.step():
            self.transmit(out, remote)
        peer.identity = self._keys.asked or peer.identity
        if peer.session.challenged:
            del self._pending[remote]
        elif peer.session.failed:
            del self._pending[remote]
            self._refused(remote, peer.identity)
        elif peer.session.over:
            del self._pending[remote]
            self._peers.pop(self._remotes.get(peer.identity, remote), None)
            self._remotes[peer.identity] = remote
            self._peers[remote] = peer
            self.counts["dtls_handshakes"] += 1
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _read(self, datagram: bytes, remote: Remote, peer: _Peer) -> list[bytes]:
        peer.session.feed(datagram)
        said, answers = peer.session.read()
        for answer in answers:
            self.transmit(answer, remote)
        if peer.session.failed:  # or has said goodbye: nobody is left to be answered
            del self._peers[remote]
            return []
        return said

    def _tick(self) -> None:
        """Let flights be sent again, and give up on who has gone."""
        self._timer = None
        for remote, peer in list(self._pending.items()):
            if asyncio.get_running_loop().time() > peer.until_s:
                del self._pending[remote]
            else:
                self._step(remote, peer)

    def _refused(self, remote: Remote, identity: str) -> None:
        """Say it once of each, and count it each time."""
        known = identity in iter(self._keys)
        self.counts["dtls_failed" if known or not identity else "dtls_unknown"] += 1
        why = f"{identity[:32]!r}: " + ("wrong key" if known else "unknown identity")
        if not identity:
            why = "no handshake of a vehicle"
        if (remote[0], why) not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add((remote[0], why))
            _LOG.warning("DTLS: %s is refused: %s", remote[0], why)


def _configuration(**keys: object) -> tls.DTLSConfiguration:
    return tls.DTLSConfiguration(
        **keys,  # type: ignore[arg-type]
        ciphers=(SUITE,),
        validate_certificates=False,  # there are none
        lowest_supported_version=tls.DTLSVersion.DTLSv1_2,
        handshake_timeout_min=FIRST_TIMEOUT_S,
        handshake_timeout_max=LAST_TIMEOUT_S,
    )


def _nowhere(datagram: bytes, remote: tuple[str, int]) -> None:
    raise AssertionError(f"no socket for {len(datagram)} bytes to {remote}")
