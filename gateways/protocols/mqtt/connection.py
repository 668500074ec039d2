"""A paho-mqtt client driven by the running event loop, without a thread; it knows no vehicle."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import typing
from collections.abc import Callable
from typing import Any, Final

from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.ends import AccessRefusedError, ConnectError
from gateways.protocols.mqtt import packets
from gateways.protocols.mqtt.private_names import AdoptingClient
from gateways.protocols.tcp import ended_by_peer, unacknowledged_bytes
from gateways.protocols.tls import TlsClient, refuses

VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}

_MOST_PACKET_BYTES = 268_435_460  # MQTT 5, 2.1.4
_MISC_SHARE = 4  # paho looks at its keep-alive only when asked: four times per interval keeps it in time
_CLOSE_TIMEOUT_S = 2.0
_PACKET_TOO_LARGE: Final = 0x95


class Owner(typing.Protocol):
    """Whoever holds a connection; called from the loop's thread."""

    def opened(self, session_present: bool) -> None:
        """The broker has accepted; called before paho sends again what was in flight."""

    def lost(self, reason: str) -> None:
        """An accepted connection is gone, and `leave` did not end it."""

    def drained(self) -> None:
        """The socket takes bytes again after it had been full."""


# Our own fault, not the link's: the process cannot go on as it should.
_OWN_FAULTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Reason codes of CONNACK: bad user name or password, not authorized, banned (MQTT 5, 3.2.2.2).
_ACCESS_REFUSED = frozenset({0x86, 0x87, 0x8A})


class LoopClient(AdoptingClient):
    """One MQTT connection on the event loop; paho keeps the session, the packets and the keep-alive.

    Within a callback paho holds a lock that it takes again to report a closed socket: a write from there that meets a
    reset would wait for itself, and all vehicles with it. So nothing is written from within a callback; whoever has
    called paho writes when it returns.

    Attributes:
        server_ended: the server has closed the last connection because a packet is too large, or without saying why.
    """

    def __init__(
        self,
        owner: Owner,
        endpoint: Endpoint,
        client_id: str,
        version: str,
        settings: VehicleSettings,
        *,
        publish_qos: int = 0,
    ) -> None:
        self.five = version == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if self.five else False,
            protocol=VERSIONS[version],
            reconnect_on_failure=False,
        )
        self._owner = owner
        self._endpoint = endpoint
        self._source_address = settings.source_address
        self._tls = None if endpoint.tls is None else TlsClient(endpoint.tls)
        self._accepted: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._granted: asyncio.Future[None] | None = None
        self._misc: asyncio.TimerHandle | None = None
        self._writing = False
        self._leaving = False
        self._inside = False
        self.up = False
        self.server_ended = False
        self._peer_closed = False
        self._publish_qos = publish_qos
        self.peer_receive_max = 65_535
        self.peer_packet_bytes_max = _MOST_PACKET_BYTES
        self.max_inflight_messages_set(0)  # whoever sends keeps the limit; paho shall not queue on its own
        if endpoint.username is not None:
            self.username_pw_set(endpoint.username, endpoint.password)
        self.on_connect = self.callback(self._on_connack)
        self.on_disconnect = self.callback(self._on_gone)
        self.on_subscribe = self.callback(self._on_suback)
        self.on_socket_open = self.callback(self._on_open)
        self.on_socket_close = self.callback(self._on_close)
        properties = None
        if self.five:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = settings.session_expiry_s
            properties.ReceiveMaximum = settings.receive_max
        arguments: dict[str, Any] = {"clean_start": False, "properties": properties} if self.five else {}
        self.connect_async(endpoint.host, endpoint.port, settings.keepalive_s, **arguments)

    def callback(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return what paho may call in place of `function`."""

        def call(*arguments: Any) -> None:
            outer, self._inside = self._inside, True
            try:
                function(*arguments)
            finally:
                self._inside = outer

        return call

    def readable(self) -> None:
        """The socket has bytes: let paho read them all."""
        sock = self.socket()
        while sock is not None:
            self.loop_read()
            # TLS decrypts whole records: what is left in there makes no socket readable.
            pending = sock.pending() if isinstance(sock, ssl.SSLSocket) else 0
            if not pending or self.socket() is not sock:
                break
        self.write_soon()

    def write_soon(self) -> None:
        """Write what paho has queued, now as far as the socket takes it; from within a callback, when that is over."""
        if self._inside:
            return
        if self.want_write():
            self.loop_write()
        sock = self.socket()
        if sock is not None and self.want_write() and not self._writing:
            self._writing = True
            asyncio.get_running_loop().add_writer(sock.fileno(), self._writable)

    def unwritten(self) -> bool:
        """Say whether bytes wait in paho or in the socket, not yet acknowledged by the peer's TCP."""
        sock = self.socket()
        if sock is None or self.want_write():
            return sock is not None
        return unacknowledged_bytes(sock) > 0

    async def dial(self, timeout_s: float) -> None:
        """Connect, shake hands and wait for CONNACK; ConnectError names what failed."""
        self._leaving = False
        self._accepted = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                self.adopt(await self._socket())
                self.write_soon()
                await self._accepted
                self._require_up()
        except TimeoutError:
            self._abandon()
            raise ConnectError(f"{self._where()}: no answer within {timeout_s:g} s") from None
        except ConnectError:
            self._abandon()
            raise
        except OSError as error:
            self._abandon()
            if error.errno in _OWN_FAULTS:
                raise
            kind = AccessRefusedError if refuses(error) else ConnectError
            raise kind(f"{self._where()}: {error.strerror or error}") from None
        except BaseException:
            self._abandon()
            raise
        finally:
            self._accepted = None

    async def subscribe_to(self, topic_filter: str, qos: int, timeout_s: float) -> None:
        """Subscribe and wait for SUBACK; ConnectError when the broker does not grant it."""
        self._granted = asyncio.get_running_loop().create_future()
        try:
            self.subscribe(topic_filter, qos)
            self.write_soon()
            async with asyncio.timeout(timeout_s):
                await self._granted
                self._require_up()
        except TimeoutError:
            self._abandon()
            raise ConnectError(f"{self._where()}: no SUBACK within {timeout_s:g} s") from None
        except BaseException:
            self._abandon()
            raise
        finally:
            self._granted = None

    async def leave(self, *, end_session: bool) -> None:
        """Send DISCONNECT and close; a peer that does not take it is dropped after a moment."""
        self._leaving = True
        if self.socket() is None:
            return
        self._gone = asyncio.get_running_loop().create_future()
        properties = None
        if self.five and end_session:
            properties = Properties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = 0
        self.disconnect(properties=properties)
        self.write_soon()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone, _CLOSE_TIMEOUT_S)
        self._abandon()

    def _require_up(self) -> None:
        """ConnectError when the connection went before whoever waited for it could run again."""
        if not self.up:
            raise ConnectError(f"{self._where()} closes at once")

    def _where(self) -> str:
        return f"MQTT broker {self._endpoint.host}:{self._endpoint.port}"

    def _abandon(self) -> None:
        self._leaving, leaving = True, self._leaving
        self.drop_socket()
        self.up = False
        self._leaving = leaving

    async def _socket(self) -> socket.socket | ssl.SSLSocket:
        """Return a connected socket, TLS included; nothing in here may block the other vehicles."""
        loop = asyncio.get_running_loop()
        sock: socket.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._source_address is not None:
                sock.bind((self._source_address, 0))
            await loop.sock_connect(sock, (self._endpoint.host, self._endpoint.port))
            if self._tls is not None:
                return await self._tls.shake_hands(sock, self._endpoint.host)
        except BaseException:
            sock.close()
            raise
        return sock

    def _on_open(self, _client: Any, _data: Any, sock: Any) -> None:
        asyncio.get_running_loop().add_reader(sock.fileno(), self.readable)
        self._look_after_keep_alive()

    def _look_after_keep_alive(self) -> None:
        """Look now and then whether a ping is due, as often as the keep-alive of now asks for."""
        loop = asyncio.get_running_loop()
        interval_s = max(self.keepalive / _MISC_SHARE, 0.25)
        if self._misc is not None:
            self._misc.cancel()

        def misc() -> None:
            self._misc = loop.call_later(interval_s, misc)
            self.keep_alive()
            self.write_soon()

        self._misc = loop.call_later(interval_s, misc)

    def keep_alive(self) -> None:
        """Let paho look at its keep-alive."""
        self.loop_misc()

    def _on_close(self, _client: Any, _data: Any, sock: Any) -> None:
        self._peer_closed = ended_by_peer(sock)
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock.fileno())
        loop.remove_writer(sock.fileno())
        self._writing = False
        if self._misc is not None:
            self._misc.cancel()
            self._misc = None
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _writable(self) -> None:
        self.loop_write()
        if not self.want_write():
            if (sock := self.socket()) is not None:
                asyncio.get_running_loop().remove_writer(sock.fileno())
            self._writing = False
            self._owner.drained()

    def _on_connack(
        self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            kind = AccessRefusedError if reason.value in _ACCESS_REFUSED else ConnectError
            self._fail(kind(f"{self._where()} refuses: {in_words(reason, properties)}"))
            return
        # What the server allows (MQTT 5, 3.2.2.3); it may be another after each connection.
        self.peer_receive_max = getattr(properties, "ReceiveMaximum", 65_535)
        self.peer_packet_bytes_max = getattr(properties, "MaximumPacketSize", _MOST_PACKET_BYTES)
        most_qos = getattr(properties, "MaximumQoS", 2)
        if most_qos < self._publish_qos:
            words = f"its Maximum QoS is {most_qos}, and QoS {self._publish_qos} is to be published"
            self._fail(AccessRefusedError(f"{self._where()}: {words}"))
            return
        self._look_after_keep_alive()  # paho has taken the server's, which may be shorter
        self.up = True
        self._owner.opened(bool(flags.session_present))
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_result(None)

    def _on_suback(
        self, _client: Any, _data: Any, _mid: int, reasons: list[ReasonCode], properties: Properties | None
    ) -> None:
        if self._granted is None or self._granted.done():
            return
        if reasons[0].is_failure:
            words = in_words(reasons[0], properties)
            self._granted.set_exception(ConnectError(f"{self._where()} refuses to subscribe: {words}"))
        else:
            self._granted.set_result(None)

    def _on_gone(
        self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        was_up, self.up = self.up, False
        said = flags.is_disconnect_packet_from_server
        self.server_ended = reason.value == _PACKET_TOO_LARGE if said else self._peer_closed
        words = in_words(reason, properties)
        refusal = "" if self._tls is None else self._tls.refusal
        if refusal:
            self._fail(AccessRefusedError(f"{self._where()} refuses: {refusal}"))
        else:
            self._fail(ConnectError(f"{self._where()} closes: {words}"))
        # Whoever is just waiting in `dial` or `subscribe_to` is told there, and there alone.
        if was_up and not self._leaving and self._accepted is None and self._granted is None:
            self._owner.lost(refusal or words)

    def _fail(self, error: ConnectError) -> None:
        for waiting in (self._accepted, self._granted):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)


def in_words(reason: ReasonCode, properties: Properties | None) -> str:
    """Return a reason code's name and the server's own words for it."""
    return packets.in_words(str(reason), getattr(properties, "ReasonString", ""))
