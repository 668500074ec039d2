"""A vehicle's end of DTLS: one association with the gateway, and what waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from mbedtls import tls

from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.dtls import (
    APPLICATION_DATA,
    TICK_S,
    Session,
    Transmit,
    configuration,
    datagrams,
    nowhere,
)
from gateways.protocols.ends import AccessRefusedError, ConnectError

SILENT_S: Final = 10.0
_WAITING_MAX: Final = 16


class DtlsClient:
    """A vehicle's end: one association with the gateway, made anew when that is silent.

    Attributes:
        transmit: sends a datagram; its socket's owner sets it.
    """

    def __init__(self, identity: str, key: bytes) -> None:
        self._identity = identity
        self._context = tls.ClientContext(configuration(pre_shared_key=(identity, key)))
        self._session: Session | None = None
        self._pending: Session | None = None
        self._remote: tuple[str, int] = ("", 0)
        self._waiting: deque[bytes] = deque(maxlen=_WAITING_MAX)
        self._unheard_since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first: asyncio.Future[None] | None = None
        self.transmit: Transmit = nowhere

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
        if self._pending is not None and datagram[:1] != bytes((APPLICATION_DATA,)):
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
