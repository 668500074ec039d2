"""TLS 1.3 (RFC 8446) on sockets that must not block the event loop; it knows no protocol above it.

A client that shows a certificate learns late what the server thinks of it: by RFC 8446, 4.4.2, its own handshake is over
before the server has read the certificate, and the refusal comes as an alert in place of the first answer. So whoever
reads must keep that alert: it names the reason, where the end of the connection alone would look like the network's.

After an outage a client resumes its session by the newest ticket that the server gave it (2.2): no certificates then.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from gateways.protocols.base import Tls
from schemas.errors import Refusal


@lru_cache(maxsize=16)
def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context that verifies the peer, one for all connections that use the same files.

    Reading the authority's file takes longer than a handshake. Refusal names a file that cannot be used. Nothing below
    TLS 1.3 is spoken.
    """
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name of the peer
    context.sslsocket_class = _Socket
    _fit(context, tls)
    return context


def blocking_context(tls: Tls) -> ssl.SSLContext:
    """Return the same for a single connection that may block; Refusal names a file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _fit(context, tls)
    return context


def _fit(context: ssl.SSLContext, tls: Tls) -> None:
    for name, path in asdict(tls).items():
        if path is not None and name.endswith("_file"):
            _check_readable(name, path)
    try:
        context.load_verify_locations(cafile=tls.ca_file)
    except ssl.SSLError as error:
        raise Refusal(f"tls.ca_file {tls.ca_file}: no certificates in PEM form: {error.reason}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if tls.certificate_file is not None:
        try:
            context.load_cert_chain(tls.certificate_file, tls.key_file)
        except ssl.SSLError as error:
            where = f"tls.certificate_file {tls.certificate_file}, tls.key_file {tls.key_file}"
            raise Refusal(f"{where}: no certificate and its key in PEM form: {error.reason}") from error


def _check_readable(name: str, path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise Refusal(f"tls.{name} {path}: {error.strerror}") from error


class TlsClient:
    """One client's TLS: what it trusts and shows, and the session that its next connection resumes.

    Attributes:
        context: for connections that resume nothing.
        refusal: the alert by which the newest connection was refused; "" when it was not.
    """

    def __init__(self, tls: Tls) -> None:
        self.context = tls_context(tls)
        self._server_name = tls.server_name
        self.refusal = ""
        self._newest: ssl.SSLObject | ssl.SSLSocket | None = None
        self._session: ssl.SSLSession | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._spare: socket.socket | None = None

    async def shake_hands(self, sock: socket.socket, host: str) -> ssl.SSLSocket:
        """Return TLS on a connected, non-blocking socket, while the loop goes on; OSError leaves it to be closed."""
        session = self.begin()
        secured = self.context.wrap_socket(
            sock, server_hostname=self.name_of(host), do_handshake_on_connect=False, session=session
        )
        assert isinstance(secured, _Socket)
        secured.client = self
        self._newest = secured
        try:
            while True:
                try:
                    secured.do_handshake()
                except ssl.SSLWantReadError:
                    await _ready(secured, read=True)
                except ssl.SSLWantWriteError:
                    await _ready(secured, read=False)
                else:
                    return secured
        except BaseException:
            secured.close()
            raise

    def name_of(self, host: str) -> str:
        """Return the name that the certificate of the peer at this host must have."""
        return self._server_name or host

    @contextlib.contextmanager
    def resuming(self) -> Iterator[ssl.SSLContext]:
        """Yield the context with which asyncio makes one connection of this client."""
        before = _CLIENT.set(self)
        try:
            yield self.context
        finally:
            _CLIENT.reset(before)

    def watch(self, sock: socket.socket) -> None:
        """Keep the socket of asyncio's connection at hand, so that `last_words` can be read when a write fails first."""
        self.settled()
        self._spare = sock.dup()

    def settled(self) -> None:
        """Let the socket go: the peer has taken us, or the connection is over."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def last_words(self) -> ssl.SSLError | None:
        """Return the alert of a peer that has refused us and closed, where asyncio met the closed socket before it."""
        spare = self._spare
        try:
            if spare is not None and self._incoming is not None and isinstance(self._newest, ssl.SSLObject):
                self._incoming.write(spare.recv(_ALERT_MAX_BYTES))
                self._newest.read(1)
        except ssl.SSLError as error:
            return error if refuses(error) else None
        except OSError:
            return None
        finally:
            self.settled()
        return None

    def begin(self) -> ssl.SSLSession | None:
        """Return the session that the next connection is to resume."""
        self.refusal = ""
        if self._newest is not None:
            self.keep(self._newest)
        return self._session

    def begun(self, connection: ssl.SSLObject, incoming: ssl.MemoryBIO) -> None:
        """Know the connection whose session comes next, and where its bytes come in."""
        self._newest, self._incoming = connection, incoming

    def keep(self, connection: ssl.SSLObject | ssl.SSLSocket) -> bool:
        """Keep the session of a connection, and return whether it has one; one whose handshake has failed has none.

        Asked for with the first data, which come behind the tickets, and before it is closed, for newer ones: a
        connection that ends without a word, as with a link that is cut, is an error to OpenSSL, and has no session then.
        """
        session = None if connection.version() is None else connection.session
        if session is None or not session.has_ticket:
            return False
        self._session = session
        return True


# Which client asyncio connects: `create_connection` passes a context on, and no session.
_CLIENT: ContextVar[TlsClient | None] = ContextVar("tls_client", default=None)


class _Context(ssl.SSLContext):
    """Offers the session of the client that is being connected."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        client = _CLIENT.get()
        if client is None:
            return super().wrap_bio(*arguments, **options)
        connection = super().wrap_bio(*arguments, **{**options, "session": client.begin()})
        client.begun(connection, arguments[0])
        return connection


class _Socket(ssl.SSLSocket):
    """Tells its client what its owner's library would swallow: the alert, and the ticket."""

    client: TlsClient | None = None
    _kept = False

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            read = super().recv(buflen, flags)
        except ssl.SSLError as error:
            self._note(error)
            raise
        if read and self.client is not None and not self._kept:
            self._kept = self.client.keep(self)
        return read

    def send(self, data: Any, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            # The peer has closed already: what it said before waits to be read.
            try:
                super().recv(1)
            except OSError as error:
                self._note(error)
            raise

    def _note(self, error: OSError) -> None:
        if self.client is not None and refuses(error):
            self.client.refusal = str(error)

    def close(self) -> None:
        if self.client is not None:
            self.client.keep(self)
        super().close()


def refuses(error: BaseException) -> bool:
    """Say whether an error means that one of both ends will not have the other's certificate, or its lack of one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
    return reason is not None and any(alert in reason for alert in _REFUSALS)


_ALERT_MAX_BYTES = 4_096
# Alerts about certificates (RFC 8446, 6.2), as OpenSSL names them.
_REFUSALS = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)


async def _ready(sock: socket.socket, *, read: bool) -> None:
    """Wait until the socket can be read, or written."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    (loop.add_reader if read else loop.add_writer)(sock.fileno(), event.set)
    try:
        await event.wait()
    finally:
        (loop.remove_reader if read else loop.remove_writer)(sock.fileno())
