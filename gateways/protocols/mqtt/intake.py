"""The gateway's end of MQTT: a session on a socket of the event loop, kept up; Kafka is the bridge's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Final

from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings, Mode
from gateways.protocols.connection_log import ConnectionLog
from gateways.protocols.connection_state import KeptConnection
from gateways.protocols.ends import AccessRefusedError, ConnectError, Receipt, Sink
from gateways.protocols.mqtt.address import mqtt_addresses
from gateways.protocols.mqtt.members import ANSWER_S, Members
from gateways.protocols.mqtt.packets import NO_EXPIRY_S, Credentials, MalformedPacketError
from gateways.protocols.mqtt.session import (
    MAXIMUM_PACKET_BYTES,
    TICKS_PER_KEEPALIVE,
    GatewaySession,
    MqttReceipt,
)
from gateways.protocols.mqtt.wire import Wire
from gateways.protocols.tcp import reason_of
from gateways.protocols.tls import refuses, tls_context

_LOG: Final = logging.getLogger("gateways.connection")
# For which a gateway waits for the broker's answer while it connects.
CONNECT_TIMEOUT_S: Final = 10.0
_LEAVE_TIMEOUT_S: Final = 2.0
# Two gateways of one name throw each other out as fast as they come back, some four times a second; from the 20th time on
# each lets the other have some seconds.
_SHORT_S: Final = 5.0
RIVALRY: Final = 20
RIVALRY_WAIT_S: Final = 5.0
# A member that leaves has had everything when nothing has come for so long; stuck when nothing moves at all. What comes without
# end, or is too much for the time that a process has to stop, waits in its session.
_HAND_OVER_QUIET_S: Final = 0.5
HAND_OVER_STUCK_S: Final = 3.0
HAND_OVER_S: Final = 10.0
_HAND_OVER_POLL_S: Final = 0.02
_CACHE_TOPICS: Final = 100_000


class MqttIntake:
    """Takes what vehicles publish; acknowledges when told, many in one write.

    At QoS 2 the message is taken at PUBLISH and PUBREC waits for the bridge: PUBREC moves the ownership
    (MQTT-4.3.3), so a gateway killed between PUBREC and PUBREL has lost nothing.
    """

    def __init__(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> None:
        self._endpoint = endpoint
        self._sink = sink
        self._name = settings.name
        self._qos: int = mode.options["qos"]
        self._five: bool = mode.options["mqtt_version"] == "5"
        prefix = f"$share/{settings.group}/" if settings.shared else ""
        self._addresses = mqtt_addresses(settings.address)
        self._filter = prefix + self._addresses.filter
        self._members = Members(settings.group) if settings.shared else None
        self._context = None if endpoint.tls is None else tls_context(endpoint.tls)
        self._server_name = None if endpoint.tls is None else endpoint.tls.server_name or endpoint.host
        self._session = GatewaySession(
            Credentials(settings.name, endpoint.username, endpoint.password),
            self,
            five=self._five,
            keepalive_s=settings.keepalive_s,
            session_expiry_s=settings.session_expiry_s,
            receive_max=settings.receive_max,
        )
        self._connection = KeptConnection(
            f"gateway {settings.name}", self._dial, self, backoff=Backoff(first_s=0.2, most_s=5.0)
        )
        self._where = f"MQTT broker {endpoint.host}:{endpoint.port}"
        self._log = ConnectionLog(self._where)
        self._wire: Wire | None = None
        self._answer: asyncio.Future[None] | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._session_present = False
        self._vehicles: dict[bytes, str] = {}
        self._now_ns = 0
        self._taken = 0
        self._flushing = False
        self._paused = self._unsubscribed = False
        self._opened = self._left_behind = False
        self._reconnects = 0
        self._short_connections = 0

    async def open(self) -> None:
        await self._connection.open()

    async def close(self) -> None:
        await self._connection.close()
        self._stop_tick()
        handed_over = False
        if self._members is not None:
            handed_over = await self._leave(self._members)
        self._opened = False
        wire, self._wire = self._wire, None
        if wire is None:
            return
        # What is read from now on is not taken: unacknowledged, it comes again to the next gateway.
        wire.intake = None
        wire.write(self._session.acknowledgements() + self._session.disconnect(end_session=handed_over))
        await wire.read_to_end(_LEAVE_TIMEOUT_S)

    async def _leave(self, members: Members) -> bool:
        """Hand the share over when another member is there; return whether that was done."""
        wire = self._wire
        if wire is None:
            self._left_behind = self._left_behind or self._opened
            return False
        self.resume()
        wire.write(self._session.publish(members.topic, members.ask()))
        if await members.answered(ANSWER_S):
            handed_over = wire is self._wire and await self._hand_over(wire)
            self._left_behind = not handed_over
            return handed_over
        # Without an answer the session stays. That this is the last member is known only if the question was passed on.
        wire.intake = None  # takes no more, so that Kafka can have all of it
        self._left_behind = not (members.passed_on and await self._settled())
        if not self._left_behind:
            _LOG.warning(
                "%s keeps what comes for the session %r %s: no other gateway of its group answers",
                *self._kept,
            )
        return False

    async def _settled(self) -> bool:
        """Wait until Kafka has what was taken; return whether it had in time."""
        for _ in range(round(HAND_OVER_STUCK_S / _HAND_OVER_POLL_S)):
            if self._session.settled:
                return True
            await asyncio.sleep(_HAND_OVER_POLL_S)
        return False

    async def _hand_over(self, wire: Wire) -> bool:
        """Leave the group, and take what the broker has put aside for this member; return whether that was all.

        A broker gives each message of a shared subscription to one member's session and leaves it there (4.8.2): what a
        member that has gone still had to get would wait for it, or for the end of its session.
        """
        wire.write(self._session.unsubscribe(self._filter))
        moved, moved_s = self._movement(), time.monotonic()
        end_s = moved_s + HAND_OVER_S
        while wire is self._wire and time.monotonic() < end_s:
            await asyncio.sleep(_HAND_OVER_POLL_S)
            rest_s = time.monotonic() - moved_s
            if self._movement() != moved:
                moved, moved_s = self._movement(), time.monotonic()
            elif (
                self._unsubscribed
                and not (self._session.held or self._paused)
                and rest_s >= _HAND_OVER_QUIET_S
            ):
                return True
            elif rest_s >= HAND_OVER_STUCK_S:
                return False
        return False

    def left_behind(self) -> str | None:
        """A share of a group that was not handed over: its messages wait in the session, or are lost with it (4.8.2)."""
        if not self._left_behind:
            return None
        where, name, kept = self._kept
        return f"{where} keeps what it had for the session {name!r} {kept}: start a gateway of this name"

    @property
    def _kept(self) -> tuple[str, str, str]:
        expiry_s = self._session.expiry_s
        kept = "without end" if expiry_s == NO_EXPIRY_S else f"for {expiry_s} s"
        if not self._five:
            kept = "for as long as it keeps a session of 3.1.1"
        return self._where, self._name, kept

    def _movement(self) -> tuple[int, int, bool, bool]:
        """Return what changes while messages of the fleet come and Kafka takes them, whatever else is read."""
        return self._taken, self._session.held, self._paused, self._unsubscribed

    def invalid(self, receipt: Receipt) -> None:
        """The broker is told what it is told of any message: it is taken."""

    def acknowledge(self, receipt: Receipt) -> None:
        if receipt is not None:
            self._session.acknowledge(receipt)

    def pause(self) -> None:
        self._paused = True
        if self._wire is not None:
            self._wire.pause(paused=True)

    def resume(self) -> None:
        self._paused = False
        if self._wire is not None:
            self._wire.pause(paused=False)

    def flush(self) -> None:
        self._flushing = False
        if self._wire is not None:
            data = self._session.acknowledgements()
            if data:
                self._wire.write(data)

    def endpoint(self) -> tuple[str, int]:
        return self._endpoint.host, self._endpoint.port

    def counters(self) -> Mapping[str, int]:
        session = self._session
        return {
            "mqtt_redelivered_while_held": session.redelivered,
            "mqtt_reused_identifiers": session.reused_identifiers,
            "mqtt_over_receive_max": session.over_receive_max,
            "mqtt_stale_receipts": session.stale_receipts,
            "mqtt_retained_again": session.retained_again,
            "mqtt_reconnects": self._reconnects,
            "mqtt_held": session.held,
        }

    # The kept connection calls these.

    def dialling(self) -> None:
        """Nothing to note: `link` tells of success and loss."""

    def dial_failed(self, error: ConnectError) -> None:
        """Another attempt follows; a broker that refuses is in trouble of its own, and no sign of a rival."""
        self._log.failed(str(error))
        if isinstance(error, AccessRefusedError):
            self._sink.turned_away(str(error))
        self._short_connections = 0

    def connection_lost(self, reason: str) -> None:
        self._log.lost(reason)
        self._sink.link(up=False, reason=reason)

    async def _dial(self, generation: int) -> None:
        if self._short_connections >= RIVALRY:
            await asyncio.sleep(RIVALRY_WAIT_S)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                wire = await self._connect(generation)
                self._wire = wire
                await self._answered(wire, self._session.connect(generation))
                await self._answered(wire, self._session.subscribe(self._filter, self._qos))
        except TimeoutError:
            self._hang_up()
            raise ConnectError(f"{self._where}: no answer within {CONNECT_TIMEOUT_S:g} s") from None
        except ConnectError as error:
            self._hang_up()
            raise type(error)(f"{self._where} {error}") from None
        except OSError as error:
            self._hang_up()
            kind = AccessRefusedError if refuses(error) else ConnectError
            raise kind(f"{self._where}: {reason_of(error)}") from None
        except BaseException:
            self._hang_up()
            raise
        if self._members is not None:
            wire.write(self._session.watch(self._members.topic))
        wire.pause(paused=self._paused)
        self._start_tick()
        self._reconnects += self._opened
        self._opened = True
        self._log.up()
        self._sink.link(up=True, reason="resumed" if self._session_present else "subscribed")

    async def _connect(self, generation: int) -> Wire:
        host = self._endpoint.host
        _, wire = await asyncio.get_running_loop().create_connection(
            lambda: Wire(self, generation),
            host,
            self._endpoint.port,
            ssl=self._context,
            server_hostname=self._server_name,
        )
        return wire

    async def _answered(self, wire: Wire, data: bytes) -> None:
        """Write a request and wait for its answer. Raises ConnectError for a refusal, or when the connection ends."""
        if wire.ended is None:
            self._answer = asyncio.get_running_loop().create_future()
            try:
                wire.write(data)
                await self._answer
            finally:
                self._answer = None
        if wire.ended is not None:
            raise self._closed(wire, f"closes at once: {wire.ended}")

    def _closed(self, wire: Wire, words: str) -> ConnectError:
        return (AccessRefusedError if wire.refused else ConnectError)(words)

    def _hang_up(self) -> None:
        self._stop_tick()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.intake = None
            wire.abort()

    # The wire calls these.

    def bytes_arrived(self, data: bytes) -> None:
        self._now_ns = time.time_ns()
        session = self._session
        try:
            session.receive(data)
        except MalformedPacketError as error:
            if self._wire is not None:
                self._wire.write(session.disconnect(code=error.code))
            self._give_up(f"the broker breaks the protocol: {error}")
            return
        if not self._flushing and session.due():
            # PUBCOMP, and what a redelivery finds settled already, waits for no report of Kafka's.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def wire_ended(self, wire: Wire, reason: str) -> None:
        """The socket is gone."""
        if wire is self._wire:
            self._give_up(reason)

    # The session calls these.

    def accepted(self, session_present: bool) -> None:
        self._session_present = session_present
        self._done()

    def subscribed(self) -> None:
        self._done()

    def unsubscribed(self) -> None:
        self._unsubscribed = True

    def refused(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(AccessRefusedError(reason))

    def ended(self, reason: str, *, taken_over: bool) -> None:
        if taken_over:
            self._end("another client has taken its place")
        self._give_up(f"the broker closes: {reason}")

    def _end(self, reason: str) -> None:
        """End the process: to connect again would throw the other one out, and so on for ever."""
        self._connection.stop()
        where = f"{self._endpoint.host}:{self._endpoint.port}"
        message = f"gateway {self._name!r} at {where}: {reason}; give each gateway a name of its own"
        asyncio.get_running_loop().call_exception_handler({"message": message})

    def publish_arrived(
        self,
        topic: bytes,
        payload: bytes,
        duplicate: bool,
        receipt: MqttReceipt | None,
        content_type: bytes,
    ) -> None:
        vehicle = self._vehicles.get(topic)
        if vehicle is None:
            vehicle = self._address(topic, payload, receipt)
            if vehicle is None:
                return
        self._taken += 1
        if content_type:
            said = content_type.decode("utf-8", "replace")
            self._sink.take(vehicle, payload, self._now_ns, duplicate, receipt, said)
        else:
            self._sink.take(vehicle, payload, self._now_ns, duplicate, receipt)

    def oversized_arrived(
        self, topic: bytes, beginning: bytes, size_bytes: int, receipt: MqttReceipt | None
    ) -> None:
        self._taken += 1
        reason = f"a payload of {size_bytes} bytes: a packet may have {MAXIMUM_PACKET_BYTES}"
        address = topic.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            address = self._addresses.vehicle_of(address)
        self._sink.oversized(address, beginning, self._now_ns, receipt, size_bytes=size_bytes, reason=reason)

    def _address(self, topic: bytes, payload: bytes, receipt: MqttReceipt | None) -> str | None:
        """Return the vehicle a topic names, seen for the first time, or None after passing it on as bad."""
        text = topic.decode("utf-8", "replace")
        if self._members is not None and text == self._members.topic:
            self._to_member(self._members, payload, receipt)
            return None
        try:
            vehicle = self._addresses.vehicle_of(text)
        except ValueError as error:
            self._taken += 1
            self._sink.misaddressed(text, payload, self._now_ns, receipt, str(error))
            return None
        if len(self._vehicles) < _CACHE_TOPICS:
            self._vehicles[topic] = vehicle
        return vehicle

    def _to_member(self, members: Members, payload: bytes, receipt: MqttReceipt | None) -> None:
        if receipt is not None:  # where the group takes every topic, this one too
            self.acknowledge(receipt)
        answer = members.arrived(payload)
        if answer is not None and self._wire is not None:
            self._wire.write(self._session.publish(members.topic, answer))

    def _done(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    def _give_up(self, reason: str) -> None:
        """The connection is of no use any more, in whatever state it was."""
        wire = self._wire
        if wire is None:
            return
        reason += self._rivalry(wire)
        wire.ended = reason
        self._hang_up()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._closed(wire, f"closes: {reason}"))
        self._connection.lost(reason, wire.generation)

    def _rivalry(self, wire: Wire) -> str:
        """Return what to add to the reason of a lost connection where another client of this name may be behind it.

        3.1.1 has no DISCONNECT from a broker, and mosquitto 2.0.11 sends none in MQTT 5 either: it just closes. So does a
        proxy in trouble, hence the number, and hence no end of the process: rivals reach it within some six seconds, and
        never fail to connect in between.
        """
        short = wire.closed_in_order and time.monotonic() - wire.began_s < _SHORT_S
        self._short_connections = self._short_connections + 1 if short else 0
        if self._short_connections < RIVALRY:
            return ""
        return (
            f" ({self._short_connections} connections one after the other within {_SHORT_S:g} s each, as when another"
            f" client is named {self._name!r} too, or a proxy is in trouble)"
        )

    def _start_tick(self) -> None:
        interval_s = self._session.keepalive_s / TICKS_PER_KEEPALIVE
        if not interval_s:
            return  # a keep-alive of 0 switches it off (3.1.2.10)
        loop = asyncio.get_running_loop()

        def tick() -> None:
            self._tick = loop.call_later(interval_s, tick)
            data = self._session.tick(deaf=self._paused)
            if data is None:
                self._give_up("the broker is silent: no PINGRESP")
            elif data and self._wire is not None:
                self._wire.write(data)

        self._tick = loop.call_later(interval_s, tick)

    def _stop_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
