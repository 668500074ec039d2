"""MQTT 5 and 3.1.1 by paho-mqtt: the vehicle's end."""

from __future__ import annotations

import time
from typing import Any

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MessageState, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from gateways.protocols.base import Endpoint, Mode, VehicleSettings
from gateways.protocols.ends import VehicleEvents
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.connection import LoopClient
from gateways.protocols.mqtt.packets import encode_variable_integer
from schemas.topics import vehicle_id


class MqttVehicle:
    """One vehicle's publisher; its packet identifiers map to the sender's tokens."""

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
        self._orphans: list[MQTTMessage] = []
        self._client.on_publish = self._client.callback(self._on_acknowledged)

    async def connect(self) -> None:
        await self._client.dial(self._settings.connect_timeout_s)
        for message in self._orphans:
            self._again(message)
        self._orphans = []
        self._events.connected(time.time_ns(), self._session_present)

    async def close(self) -> None:
        await self._client.leave(end_session=True)

    def ready(self) -> bool:
        return self._client.up and len(self._tokens) < self._limit and not self._client.want_write()

    def send(self, token: int, payload: bytes) -> None:
        if (size := self._packet_bytes(payload)) > self._client.peer_packet_bytes_max:
            # It would close the connection, and so would each further attempt (MQTT 5, 3.2.2.3.6).
            most = self._client.peer_packet_bytes_max
            self._events.unsendable(
                token, f"a packet of {size} bytes: the server's Maximum Packet Size is {most}"
            )
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

    def _packet_bytes(self, payload: bytes) -> int:
        """Return how long PUBLISH is (MQTT 5, 3.3): our topics are ASCII, and we give it no properties."""
        rest = 2 + len(self._topic) + (2 if self._qos else 0) + self._client.five + len(payload)
        return 1 + len(encode_variable_integer(rest)) + rest

    def in_flight(self) -> int:
        return len(self._tokens) if self._qos else int(self._client.unwritten())

    def opened(self, session_present: bool) -> None:
        self._session_present = session_present
        self._limit = min(self._settings.receive_max, self._client.peer_receive_max)
        if not session_present and self._tokens:
            # MQTT-3.2.2-5: without the session at the broker its packet identifiers mean nothing any more.
            self._orphans += self._client.drop_out_messages()

    def lost(self, reason: str) -> None:
        self._events.disconnected(time.time_ns(), reason)

    def drained(self) -> None:
        self._events.writable()

    def _again(self, message: MQTTMessage) -> None:
        """Publish as new what a broker without our session cannot know."""
        token = self._tokens.pop(message.mid)
        if message.state in (MessageState.MQTT_MS_RESEND_PUBREL, MessageState.MQTT_MS_WAIT_FOR_PUBCOMP):
            # PUBREC came: the broker took it over (MQTT-4.3.3-6), a second one would be a duplicate.
            self._events.acknowledged(token, time.time_ns())
            return
        self.send(token, bytes(message.payload))

    def _on_acknowledged(
        self, _client: Any, _data: Any, mid: int, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        at_ns = time.time_ns()
        token = self._tokens.pop(mid, None)
        if token is None:
            return
        if reason.is_failure:
            self._events.refused(token, str(reason))
        else:
            self._events.acknowledged(token, at_ns)
