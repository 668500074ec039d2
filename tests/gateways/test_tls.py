"""TLS of one client against OpenSSL's own server: who refuses whom, by which name, and which session is resumed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from gateways.protocols import PROTOCOLS
from gateways.protocols.amqp.transport import Stream, connect_stream
from gateways.protocols.base import Endpoint, Tls, VehicleSettings
from gateways.protocols.ends import AccessRefusedError
from gateways.protocols.tls import TlsClient, refuses
from ivsim.testbed.credentials import Credentials, make_credentials, write_client_certificate
from schemas.errors import Refusal
from schemas.topics import vehicle_id

NAME = vehicle_id(1)
HOST = "127.0.0.1"


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return make_credentials(tmp_path / "keys", 2, "mtls", HOST)


@contextmanager
def served(
    credentials: Credentials,
    *,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    heard: bytearray | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """A server that sends each client its own name back; yields its port and the names it has met."""
    files = credentials.security.tls
    assert files is not None
    with serving(files.authority, files.certificate, files.key, newest, heard) as found:
        yield found


@contextmanager
def serving(
    authority: Path,
    certificate: Path,
    key: Path | None,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    heard: bytearray | None = None,
) -> Iterator[tuple[int, list[str]]]:
    heard = bytearray() if heard is None else heard
    # Blocking, on a thread: asyncio drops the connection of a failed handshake before its alert has left.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = newest
    met: list[str] = []
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secured:
                subject = dict(part[0] for part in secured.getpeercert()["subject"])
                met.append(subject["commonName"])
                secured.sendall(subject["commonName"].encode())
                while said := secured.recv(1 << 16):
                    heard.extend(said)
                    secured.sendall(b"heard")
            sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], met
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def cut(fileno: int) -> None:
    """End what comes in on a connection without a word of TLS, as a link does that has gone."""
    with socket.socket(fileno=os.dup(fileno)) as one:
        one.shutdown(socket.SHUT_RD)


async def by_socket(client: TlsClient, port: int, *, cut_off: bool = False) -> tuple[str, bool]:
    """Connect as MQTT does; return the name that the server saw, and whether the session was resumed.

    `cut_off`: the connection ends without a word of TLS, and its owner learns of it before it closes.
    """
    loop = asyncio.get_running_loop()
    plain = socket.socket()
    plain.setblocking(False)
    await loop.sock_connect(plain, (HOST, port))
    sock = await client.shake_hands(plain, HOST)
    # MQTT's client speaks first, and a server that has refused it may be gone by then: the alert is still there to read.
    await asyncio.sleep(0.01)
    with contextlib.suppress(OSError):
        sock.send(b"CONNECT")
    try:
        while True:
            try:
                if said := sock.recv(100):
                    if cut_off:
                        cut(sock.fileno())
                        with contextlib.suppress(OSError):
                            while sock.recv(100):
                                pass
                    return said.decode()[: len(NAME)], bool(sock.session_reused)
                raise ConnectionResetError(client.refusal or "no word")
            except ssl.SSLWantReadError:
                await asyncio.sleep(0.01)
    finally:
        sock.close()


async def by_stream(client: TlsClient, port: int, *, cut_off: bool = False) -> tuple[str, bool]:
    """The same as AMQP does."""
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()
    resumed: list[bool] = []

    def ended(error: Exception | None) -> None:
        over.set()
        if not arrived.done():
            arrived.set_exception(error or ConnectionResetError("no word"))

    def receive(data: bytes) -> None:
        if not arrived.done():
            arrived.set_result(data.decode()[: len(NAME)])

    class Carried(Stream):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.below = transport
            super().connection_made(transport)

    stream = await connect_stream(
        lambda: Carried(receive, ended, ()), HOST, port, source_address=None, tls=client
    )
    # As AMQP's client does it speaks first; a server that has refused it is gone by then, and the write meets a reset.
    time.sleep(0.05)  # noqa: ASYNC251 - the loop shall not read what the server says before it is gone
    stream.write(b"AMQP")
    stream.flush()
    with contextlib.suppress(OSError):
        stream.write(b"AMQP")
        stream.flush()
    resumed.append(bool(stream.below.get_extra_info("ssl_object").session_reused))
    try:
        name = await arrived
        if cut_off:
            cut(stream.below.get_extra_info("socket").fileno())
            await asyncio.wait_for(over.wait(), 10)
        return name, resumed[0]
    finally:
        stream.abort()
        await asyncio.sleep(0)


WAYS = pytest.mark.parametrize("connect", [by_socket, by_stream])
Way = Callable[..., "asyncio.Future[tuple[str, bool]]"]


@WAYS
@pytest.mark.parametrize("cut_off", [False, True])
async def test_the_second_connection_resumes_the_first_one(
    credentials: Credentials, connect: Way, cut_off: bool
) -> None:
    """Behind a cut link too: an end without a word is an error to OpenSSL, which has no session of it any more."""
    tls = credentials.tls(NAME)
    assert tls is not None
    with served(credentials) as (port, met):
        client = TlsClient(tls)
        assert await connect(client, port, cut_off=cut_off) == (NAME, False)
        assert await connect(client, port, cut_off=cut_off) == (NAME, True)
        assert await connect(client, port) == (NAME, True)
        other = TlsClient(tls)
        assert await connect(other, port) == (NAME, False), "a client begins with no session of another's"
    assert met == [NAME] * 4


@WAYS
async def test_whom_the_server_refuses_is_told_why(
    credentials: Credentials, connect: Way, tmp_path: Path
) -> None:
    authority = trustme.CA()
    own = credentials.tls(NAME)
    assert own is not None
    stranger = tmp_path / "stranger.pem"
    write_client_certificate(stranger, authority, NAME)
    shown = {
        "CERTIFICATE_REQUIRED": Tls(own.ca_file),
        "UNKNOWN_CA": Tls(own.ca_file, str(stranger), str(stranger)),
    }
    with served(credentials) as (port, met):
        for alert, tls in shown.items():
            client = TlsClient(tls)
            with pytest.raises(OSError, match=alert) as raised:
                await connect(client, port)
            if connect is by_socket:
                assert alert in client.refusal
            else:
                assert refuses(raised.value)
        assert met == []
        assert await connect(TlsClient(own), port) == (NAME, False), "and the server goes on"


@WAYS
async def test_an_expired_certificate_is_refused_by_name(tmp_path: Path, connect: Way) -> None:
    authority = trustme.CA()
    server = authority.issue_cert(HOST)
    paths = {name: tmp_path / f"{name}.pem" for name in ("authority", "server", "expired")}
    authority.cert_pem.write_to_path(paths["authority"])
    server.private_key_and_cert_chain_pem.write_to_path(paths["server"])
    write_client_certificate(
        paths["expired"], authority, NAME, not_after=datetime.now(UTC) - timedelta(minutes=1)
    )
    with serving(paths["authority"], paths["server"], None) as (port, _met):
        expired = str(paths["expired"])
        with pytest.raises(OSError, match="CERTIFICATE_EXPIRED"):
            await connect(TlsClient(Tls(str(paths["authority"]), expired, expired)), port)


@WAYS
async def test_a_server_of_another_authority_is_refused(
    credentials: Credentials, connect: Way, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    own = credentials.tls(NAME)
    assert own is not None
    with served(credentials) as (port, _met):
        with pytest.raises(ssl.SSLCertVerificationError) as raised:
            await connect(TlsClient(dataclasses.replace(own, ca_file=str(tmp_path / "other.pem"))), port)
        assert refuses(raised.value)


async def test_a_stream_loses_nothing_and_is_congested_by_nothing_but_a_full_buffer(
    credentials: Credentials,
) -> None:
    """asyncio's TLS calls back from within a write, and with a high-water mark of 0 it pauses and resumes in turn."""
    heard = bytearray()
    answers: list[bytes] = []
    left = [b"%04d" % number for number in range(200)]
    wanted = b"".join(left)
    paused: list[bool] = []
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tls = credentials.tls(NAME)
    assert tls is not None

    with served(credentials, heard=heard) as (port, _met):
        stream = await connect_stream(
            lambda: Stream(answers.append, lambda _: ended.set_result(None), ()),
            HOST,
            port,
            source_address=None,
            tls=TlsClient(tls),
        )

        def drained() -> None:
            if left:
                stream.write(left.pop(0))

        stream.on_drained = drained
        try:
            async with asyncio.timeout(20):
                while left:
                    stream.write(left.pop(0))
                    before = len(answers)
                    while len(answers) == before:
                        await asyncio.sleep(0.001)
                    paused.append(stream.congested)
                while len(heard) < len(wanted):
                    await asyncio.sleep(0.001)
        finally:
            stream.abort()
            await ended
    assert bytes(heard) == wanted
    assert not any(paused), "a few bytes are no full buffer"


@WAYS
async def test_nothing_below_tls_1_3_is_spoken(credentials: Credentials, connect: Way) -> None:
    own = credentials.tls(NAME)
    assert own is not None
    with served(credentials, newest=ssl.TLSVersion.TLSv1_2) as (port, _met):
        with pytest.raises(OSError, match="PROTOCOL_VERSION") as raised:
            await connect(TlsClient(own), port)
        assert not refuses(raised.value), "no identity was at fault"


def test_a_key_of_another_certificate_is_refused_before_anything_is_opened(credentials: Credentials) -> None:
    own, other = credentials.tls(NAME), credentials.tls(vehicle_id(2))
    assert own is not None
    assert other is not None
    with pytest.raises(Refusal, match=r"key_file .*000002\.pem: no certificate and its key"):
        TlsClient(dataclasses.replace(own, key_file=other.key_file))


def test_only_the_owner_can_read_the_keys(credentials: Credentials) -> None:
    assert credentials.certificates is not None
    keys = sorted(credentials.certificates.glob("*.pem"))
    assert [key.stem for key in keys] == [NAME, vehicle_id(2), "gateway"]
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert credentials.certificates.parent.stat().st_mode & 0o777 == 0o700
    assert credentials.passwords == {}


class Nobody:
    """The sender, of whom nothing is asked here."""

    def connected(self, at_ns: int, session_present: bool) -> None:
        raise AssertionError("no such server takes anybody")

    def disconnected(self, at_ns: int, reason: str) -> None:
        raise AssertionError(f"it was never connected: {reason}")

    def writable(self) -> None: ...


@pytest.mark.parametrize("protocol", ["mqtt", "amqp"])
async def test_a_vehicle_learns_why_it_is_refused_whichever_end_is_faster(
    tmp_path: Path, protocol: str
) -> None:
    """The alert may be there before the vehicle's first word, or after; a reset behind it must not hide it."""
    authority = trustme.CA()
    paths = {name: tmp_path / f"{name}.pem" for name in ("authority", "server", "expired")}
    authority.cert_pem.write_to_path(paths["authority"])
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(paths["server"])
    write_client_certificate(
        paths["expired"], authority, NAME, not_after=datetime.now(UTC) - timedelta(minutes=1)
    )
    row, expired = PROTOCOLS[protocol], str(paths["expired"])
    with serving(paths["authority"], paths["server"], None) as (port, met):
        endpoint = Endpoint(HOST, port, Tls(str(paths["authority"]), expired, expired))
        client = row.vehicle_client(
            endpoint,
            1,
            row.modes[row.default_mode],
            Nobody(),  # type: ignore[arg-type]
            VehicleSettings(),
        )
        for _ in range(20):
            with pytest.raises(AccessRefusedError, match="CERTIFICATE_EXPIRED"):
                await client.connect()
        await client.close()
        assert met == []
