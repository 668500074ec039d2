"""Ends the session that a client has left at a broker."""

from __future__ import annotations

from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateways.protocols.base import Endpoint
from gateways.protocols.tls import blocking_context

ANSWER_S: Final = 10.0


def end_session(endpoint: Endpoint, client_name: str) -> None:
    """Begin a session anew and end it at once (MQTT 5, 3.1.2.4 and 3.1.2.11.2): the broker forgets the one before.

    OSError or ValueError when the broker does not answer, or refuses.
    """
    answered: list[Any] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_name, protocol=mqtt.MQTTv5)
    client.username_pw_set(endpoint.username, endpoint.password)
    if endpoint.tls is not None:
        client.tls_set_context(blocking_context(endpoint.tls))
    client.on_connect = lambda _client, _data, _flags, code, _properties: answered.append(code)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 0
    client.connect_timeout = ANSWER_S
    client.connect(endpoint.host, endpoint.port, clean_start=True, properties=properties)
    try:
        for _ in range(round(ANSWER_S * 10)):
            if answered or client.loop(timeout=0.1) != mqtt.MQTT_ERR_SUCCESS:
                break
    finally:
        client.disconnect()
        client.loop(timeout=0.1)
    if not answered:
        raise ValueError("no answer")
    if answered[0].is_failure:
        raise ValueError(f"refused: {answered[0]}")
