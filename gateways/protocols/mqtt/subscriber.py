"""MQTT 5 and 3.1.1 by paho-mqtt: the receiver of the echo topology."""

from __future__ import annotations

import time
from typing import Any

from paho.mqtt.client import MQTTMessage

from gateways.protocols.base import Endpoint, Mode, VehicleSettings
from gateways.protocols.ends import SubscriberEvents
from gateways.protocols.mqtt.address import mqtt_topic
from gateways.protocols.mqtt.connection import LoopClient
from schemas.topics import vehicle_id


class MqttSubscriber:
    """Echo topology: the receiver beside a vehicle, on its address."""

    def __init__(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> None:
        identity = vehicle_id(vehicle)
        self._client = LoopClient(
            self,
            endpoint,
            f"{settings.client_prefix}{identity}-echo",
            mode.options["mqtt_version"],
            settings,
        )
        self._topic = mqtt_topic(identity)
        self._qos: int = mode.options["qos"]
        self._events = events
        self._settings = settings
        self._client.on_message = self._client.callback(self._on_received)

    async def open(self) -> None:
        await self._client.dial(self._settings.connect_timeout_s)
        await self._client.subscribe_to(self._topic, self._qos, self._settings.connect_timeout_s)

    async def close(self) -> None:
        await self._client.leave(end_session=True)

    def opened(self, session_present: bool) -> None:
        """Nothing to do: the subscription follows."""

    def lost(self, reason: str) -> None:
        self._events.disconnected(time.time_ns(), reason)

    def drained(self) -> None:
        """Nothing waits for the socket: a subscriber sends acknowledgements alone."""

    def _on_received(self, _client: Any, _data: Any, message: MQTTMessage) -> None:
        self._events.received(bytes(message.payload), time.time_ns(), message.dup)
