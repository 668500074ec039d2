"""The gateway's end of DTLS: an association a vehicle, and who is refused."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from aiocoap import Message
from mbedtls import tls

from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.dtls import (
    APPLICATION_DATA,
    HANDSHAKE,
    HEADER_BYTES,
    TICK_S,
    Session,
    Transmit,
    configuration,
    nowhere,
)

HANDSHAKE_S: Final = 30.0
_CLIENT_HELLO: Final = 1
PENDING_MAX: Final = 2_048
_NAMED_MAX: Final = 1_000
_LOG = logging.getLogger(__name__)


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
        self._context = tls.ServerContext(configuration(pre_shared_key_store=self._keys))
        self._peers: dict[Remote, _Peer] = {}
        self._pending: dict[Remote, _Peer] = {}
        self._remotes: dict[str, Remote] = {}
        self._named: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.counts = Counter(dict.fromkeys(self.COUNTS, 0))
        self.transmit: Transmit = nowhere

    def outgoing(self, datagram: bytes, remote: tuple[str, int]) -> None:
        """Send a datagram in its association; without one it is lost."""
        peer = self._peers.get(Remote(remote))
        if peer is not None and (record := peer.session.write(datagram)):
            self.transmit(record, remote)

    def incoming(self, datagram: bytes, remote: Remote) -> list[bytes]:
        """Return the CoAP messages in a datagram."""
        if len(datagram) <= HEADER_BYTES:
            self.counts["dtls_stray"] += 1
            return []
        hello = datagram[0] == HANDSHAKE and not any(datagram[3:5]) and datagram[13] == _CLIENT_HELLO
        pending = self._pending.get(remote)
        if pending is not None and datagram[0] != APPLICATION_DATA:
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
        if len(self._pending) >= PENDING_MAX:
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
