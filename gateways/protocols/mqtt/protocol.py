"""MQTT 5 and 3.1.1: the row of the table; the ends are in the modules beside it, imported when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gateways.protocols.base import (
    Endpoint,
    IntakeSettings,
    Look,
    Mode,
    Protocol,
    Scheme,
    VehicleSettings,
    Word,
)
from gateways.protocols.ends import Intake, Sink, Subscriber, SubscriberEvents, VehicleClient, VehicleEvents
from gateways.protocols.mqtt.address import LEVELS

_VERSIONS = ("5", "3.1.1")
_GUARANTEES: Mapping[int, Any] = {0: "at_most_once", 1: "at_least_once", 2: "exactly_once"}
_LOOKS = {0: Look("#0072B2", "o"), 1: Look("#56B4E9", "s"), 2: Look("#CC79A7", "^")}


class Mqtt(Protocol):
    """MQTT on mosquitto."""

    name = "mqtt"
    label = "MQTT"
    title = "MQTT 5 and 3.1.1"
    default_mode = "qos1"
    words = MappingProxyType(
        {
            "qos": Word((0, 1, 2), "Quality of service: 0, 1 or 2."),
            "mqtt_version": Word(_VERSIONS, "Version of the protocol: 5 or 3.1.1."),
        }
    )
    gateway_words = ("qos", "mqtt_version")
    levels = LEVELS
    settings = frozenset({"keepalive_s", "tcp", "connect_rate_per_s"})
    securities = ("plain", "tls", "mtls")
    ladder = ("qos0", "qos1", "qos2")
    line = "-"
    repeats = "transport"
    packages = ("paho-mqtt",)
    broker = "mosquitto"
    schemes = MappingProxyType({"mqtt": Scheme("plain", 1883), "mqtts": Scheme("tls", 8883)})
    gauges = frozenset({"mqtt_held"})
    modes = MappingProxyType(
        {
            mode.name: mode
            for mode in (
                Mode(
                    f"qos{qos}" + ("" if version == "5" else "-v311"),
                    f"QoS {qos}" + ("" if version == "5" else " (3.1.1)"),
                    _GUARANTEES[qos],
                    acknowledged=qos > 0,
                    options=MappingProxyType({"qos": qos, "mqtt_version": version}),
                    look=_LOOKS[qos] if version == "5" else None,
                    gateway_acknowledges=qos > 0,
                    leaves_session=version == "3.1.1",  # whose DISCONNECT has no properties (3.14)
                )
                for version in _VERSIONS
                for qos in _GUARANTEES
            )
        }
    )

    def vehicle_client(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> VehicleClient:
        from gateways.protocols.mqtt.vehicle import MqttVehicle

        return MqttVehicle(endpoint, vehicle, mode, events, settings)

    def intake(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> Intake:
        from gateways.protocols.mqtt.intake import MqttIntake

        return MqttIntake(endpoint, mode, sink, settings)

    def subscriber(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> Subscriber:
        from gateways.protocols.mqtt.subscriber import MqttSubscriber

        return MqttSubscriber(endpoint, vehicle, mode, events, settings)

    def forget(self, endpoint: Endpoint, client_name: str) -> None:
        from gateways.protocols.mqtt.forget import end_session

        end_session(endpoint, client_name)
