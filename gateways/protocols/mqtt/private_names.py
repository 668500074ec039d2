"""Every private name of paho-mqtt that MQTT uses, with the reason; nothing else may use one.

A private name can change with any release. Those that stay are wrapped here, and tests/gateways/test_private_names.py
fails when the library no longer behaves as this file needs it.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode

PRIVATE = ("_create_socket", "_sock_close", "_handle_pubrec", "_handle_pubackcomp")
_REFUSED_FROM = 0x80


class AdoptingClient(mqtt.Client):
    """A paho client on a socket that somebody else has connected.

    paho's public `connect` and `reconnect` block until TCP and TLS have shaken hands, for a round trip of the link or a
    time-out of seconds. In a process that drives hundreds of vehicles on one thread all of them would wait with it. And
    it has no public way to drop a connection without a DISCONNECT.

    It reads no reason code of a PUBREC either: it answers a refusal with PUBREL, and a broker may confirm that
    (mosquitto does), so that a refused message would count as delivered to it. A PUBREC of 0x80 or above ends the
    message (MQTT 5, 4.3.3), as a PUBACK with the same code does, whose handler takes it here.

    Private names: `_create_socket` is where paho asks for its socket, `_sock_close` is where it gives it back;
    `_handle_pubrec` and `_handle_pubackcomp` read `_in_packet`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._adopted: socket.socket | ssl.SSLSocket | None = None
        super().__init__(*arguments, **options)

    def adopt(self, sock: socket.socket | ssl.SSLSocket) -> None:
        """Begin an MQTT connection on `sock`, which belongs to the client from now on."""
        self._adopted = sock
        self.reconnect()

    def drop_socket(self) -> None:
        """Close the socket, if there is one, and send nothing; `on_disconnect` is not called."""
        self._sock_close()

    def _handle_pubrec(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) > 2 and packet[2] >= _REFUSED_FROM:  # after the identifier; 3.1.1 has no code
            return self._handle_pubackcomp("PUBACK")
        return super()._handle_pubrec()

    def _create_socket(self) -> socket.socket | ssl.SSLSocket:
        sock, self._adopted = self._adopted, None
        if sock is None:
            raise RuntimeError("paho asks for a socket, and none was adopted")
        return sock
