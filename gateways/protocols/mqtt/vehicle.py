"""MQTT 5 and 3.1.1 by paho-mqtt: the vehicle's end."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from paho.mqtt.enums import MessageState, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from gateways.protocols.base import Endpoint, Mode, VehicleSettings
from gateways.protocols.ends import VehicleEvents
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.connection import LoopClient, in_words
from gateways.protocols.mqtt.packets import encode_variable_integer
from schemas.topics import vehicle_id

# So many connections in a row, each within SOON_S, does a server close on a message alone before that is held back.
CLOSES: Final = 3
SOON_S: Final = 5.0


class MqttVehicle:
    """One vehicle's publisher; its packet identifiers map to the sender's tokens.

    A server that does not want a message may close the connection without a word; MQTT 3.1.1 leaves it no other way. Where
    it has closed one and acknowledged nothing, the oldest message goes alone on the next. Where it closes CLOSES of these in a
    row soon after CONNACK, nothing goes on the next one for SOON_S. If the server leaves that open, it is the message that
    it does not want, which is then refused. A link that is away closes nothing, and a server that closes every connection
    closes that one too: both make the count begin anew.
    """

    def __init__(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> None:
        identity = vehicle_id(vehicle)
        self._qos: int = mode.options["qos"]
        self._client = LoopClient(
            self,
            endpoint,
            settings.client_prefix + identity,
            mode.options["mqtt_version"],
            settings,
            publish_qos=self._qos,
        )
        self._topic = mqtt_topic(identity)
        self._events = events
        self._settings = settings
        self._limit = settings.receive_max
        self._tokens: dict[int, int] = {}
        self._session_present = False
        # What CONNACK has decided, by packet identifier: why it is refused, or "" for what the broker has.
        self._settled: dict[int, str] = {}
        self._closes = 0
        self._acknowledges = False
        self._opened_at_s = 0.0
        self._trial: asyncio.TimerHandle | None = None
        self._client.on_publish = self._client.callback(self._on_acknowledged)

    async def connect(self) -> None:
        await self._client.dial(self._settings.connect_timeout_s)
        settled, self._settled = self._settled, {}
        self._events.connected(time.time_ns(), self._session_present)
        for mid, reason in settled.items():
            if reason:
                self._events.refused(self._tokens.pop(mid), reason)
            else:
                self._events.acknowledged(self._tokens.pop(mid), time.time_ns())

    async def close(self) -> None:
        self._end_trial()
        await self._client.leave(end_session=True)

    def ready(self) -> bool:
        return self._client.up and len(self._tokens) < self._limit and not self._client.want_write()

    def send(self, token: int, payload: bytes) -> None:
        if reason := self._too_large(payload):
            self._events.unsendable(token, reason)
            return
        for _ in range(self._limit + 2):
            info = self._client.publish(self._topic, payload, self._qos)
            # QUEUE_SIZE: the packet identifier has wrapped and is still in use; the next one may be free.
            if info.rc != MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                break
        if self._qos:
            self._tokens[info.mid] = token
        if self._client.want_write():
            self._client.write_soon()

    def _too_large(self, payload: bytes | bytearray) -> str:
        """Return why the server would close the connection on this PUBLISH, and on each further one (MQTT 5, 3.2.2.3.6), or ""."""
        # Our topics are ASCII, and we give PUBLISH no properties (3.3).
        rest = 2 + len(self._topic) + (2 if self._qos else 0) + self._client.five + len(payload)
        size, most = 1 + len(encode_variable_integer(rest)) + rest, self._client.peer_packet_bytes_max
        return f"a packet of {size} bytes: the server's Maximum Packet Size is {most}" if size > most else ""

    def in_flight(self) -> int:
        return len(self._tokens) if self._qos else int(self._client.unwritten())

    def opened(self, session_present: bool) -> None:
        """Sort what is in flight by what this connection allows, before paho sends it again."""
        self._end_trial()
        self._session_present = session_present
        self._acknowledges = False
        loop = asyncio.get_running_loop()
        self._opened_at_s = loop.time()
        waiting = 0
        for message in self._client.unacknowledged():
            if message.state == MessageState.MQTT_MS_PUBLISH:
                if reason := self._too_large(message.payload):
                    self._settle(message.mid, reason)
                    continue
                # MQTT-3.2.2-5: to a broker without our session it is new, its packet identifier too.
                message.dup = message.dup and session_present
                waiting += 1
            elif session_present:
                self._closes = 0  # PUBREL is sent again, and whom the broker closes on is not known
            else:
                # PUBREC came: the broker took it over (MQTT-4.3.3-6), a second one would be a duplicate.
                self._settle(message.mid, "")
        self._limit = 1 if self._closes and waiting else self._most()
        on_trial = waiting > 0 and self._closes > CLOSES
        self._client.resend(0 if on_trial else self._limit)
        if on_trial:
            self._trial = loop.call_later(SOON_S, self._judge)

    def lost(self, reason: str) -> None:
        soon = asyncio.get_running_loop().time() - self._opened_at_s < SOON_S
        if self._client.server_ended and soon and self._tokens and not self._acknowledges and not self._trial:
            self._closes += 1
        else:
            self._closes = 0
        self._end_trial()
        self._events.disconnected(time.time_ns(), reason)

    def drained(self) -> None:
        self._events.writable()

    def _most(self) -> int:
        return min(self._settings.receive_max, self._client.peer_receive_max)

    def _settle(self, mid: int, reason: str) -> None:
        self._client.give_up(mid)
        self._settled[mid] = reason
        self._closes = 0

    def _judge(self) -> None:
        """The server leaves the connection open while the message is held back on which it has closed the others."""
        self._trial = None
        if not self._client.up:
            return
        mid = self._client.unacknowledged()[0].mid
        self._client.give_up(mid)
        token = self._tokens.pop(mid)
        self._go_on()
        self._events.refused(token, f"the server has closed {CLOSES} connections in a row on it")

    def _go_on(self) -> None:
        """Send as usual again what had waited for one message."""
        self._end_trial()
        self._closes = 0
        self._limit = self._most()
        self._client.go_on(self._limit)
        self._client.write_soon()

    def _end_trial(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
            self._trial = None

    def _on_acknowledged(
        self, _client: Any, _data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        at_ns = time.time_ns()
        self._acknowledges = True
        if self._closes:
            self._go_on()
        token = self._tokens.pop(mid, None)
        if token is None:
            return
        if reason.is_failure:
            self._events.refused(token, in_words(reason, properties))
        else:
            self._events.acknowledged(token, at_ns)
