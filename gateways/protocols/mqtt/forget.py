"""Ends the session that a client has left at a broker."""

from __future__ import annotations

from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from gateways.protocols.base import Endpoint
from gateways.protocols.tls import blocking_context

ANSWER_S: Final = 10.0


def end_session(endpoint: Endpoint, client_name: str) -> None:
    """Begin a session anew and end it at once (MQTT 3.1.1, 3.1.2.4): the broker forgets the one before, of MQTT 5 too.

    OSError or ValueError when the broker does not answer, or refuses.
    """
    answered: list[Any] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_name, clean_session=True, protocol=mqtt.MQTTv311)
    client.username_pw_set(endpoint.username, endpoint.password)
    if endpoint.tls is not None:
        client.tls_set_context(blocking_context(endpoint.tls))
    client.on_connect = lambda _client, _data, _flags, code, _properties: answered.append(code)
    client.connect_timeout = ANSWER_S
    client.connect(endpoint.host, endpoint.port)
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
