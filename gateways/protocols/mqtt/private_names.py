"""Every private name of paho-mqtt that MQTT uses, with the reason; nothing else may use one.

A private name can change with any release. Those that stay are wrapped here, and tests/gateways/test_private_names.py
fails when the library no longer behaves as this file needs it.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Literal

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MessageState, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

PRIVATE = (
    "_create_socket",
    "_sock_close",
    "_handle_pubrec",
    "_handle_pubackcomp",
    "_do_on_publish",
    "_update_inflight",
)
_REFUSED_FROM = 0x80
_IDENTIFIER_BYTES = 2
_SUCCESS = {
    name: (ReasonCode(kind), Properties(kind))  # type: ignore[no-untyped-call]
    for name, kind in (("PUBACK", PacketTypes.PUBACK), ("PUBCOMP", PacketTypes.PUBCOMP))
}


class AdoptingClient(mqtt.Client):
    """A paho client on a socket that somebody else has connected.

    paho's public `connect` and `reconnect` block until TCP and TLS have shaken hands, for a round trip of the link or a
    time-out of seconds. In a process that drives hundreds of vehicles on one thread all of them would wait with it. And
    it has no public way to drop a connection without a DISCONNECT.

    It reads no reason code of a PUBREC either: it answers a refusal with PUBREL, and a broker may confirm that
    (mosquitto does), so that a refused message would count as delivered to it. A PUBREC of 0x80 or above ends the
    message (MQTT 5, 4.3.3), as a PUBACK with the same code does, whose handler takes it here.

    A PUBACK of a packet identifier alone says Success (MQTT 5, 3.4.2.1). paho makes a reason code and properties anew for
    each, which is a seventh of what a message at QoS 1 costs a sender; here all share one of each.

    It sends again all that is in flight behind a CONNACK, however little that allows (MQTT 5, 4.9): what is left of it in
    `on_connect` goes, and what is `queued` there waits.

    Private names: `_create_socket` is where paho asks for its socket, `_sock_close` is where it gives it back;
    `_handle_pubrec` and `_handle_pubackcomp` read `_in_packet`, and `_do_on_publish` ends a message of `_out_messages`, under
    `_out_message_mutex`; `_update_inflight` sends what is queued, as far as `_max_inflight_messages` allows, whose public setter
    refuses on an open connection.
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

    def unacknowledged(self) -> list[mqtt.MQTTMessage]:
        """Return what is in flight, oldest first."""
        with self._out_message_mutex:
            return list(self._out_messages.values())

    def give_up(self, mid: int) -> None:
        """Forget a message that is not on its way on this connection."""
        with self._out_message_mutex:
            del self._out_messages[mid]

    def resend(self, most: int) -> None:
        """Have at most `most` messages published again, called in `on_connect`; PUBREL goes first and all (MQTT 5, 4.9)."""
        with self._out_message_mutex:
            waiting = [m for m in self._out_messages.values() if m.state == MessageState.MQTT_MS_PUBLISH]
            for message in waiting:
                self._out_messages.move_to_end(message.mid)
            for message in waiting[most:]:
                message.state = MessageState.MQTT_MS_QUEUED
            # 0 is no limit to paho, which then looks for nothing queued behind an acknowledgement.
            self._max_inflight_messages = max(1, most) if len(waiting) > most else 0

    def go_on(self, most: int) -> None:
        """Publish what `resend` has held back, as far as at most `most` are in flight then."""
        with self._out_message_mutex:
            self._max_inflight_messages = most
            self._update_inflight()

    def _handle_pubrec(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) > _IDENTIFIER_BYTES and packet[2] >= _REFUSED_FROM:  # 3.1.1 has no code
            return self._handle_pubackcomp("PUBACK")
        return super()._handle_pubrec()

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) != _IDENTIFIER_BYTES:
            return super()._handle_pubackcomp(cmd)
        with self._out_message_mutex:
            number = int.from_bytes(packet, "big")
            if number not in self._out_messages:
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            return self._do_on_publish(number, *_SUCCESS[cmd])

    def _create_socket(self) -> socket.socket | ssl.SSLSocket:
        sock, self._adopted = self._adopted, None
        if sock is None:
            raise RuntimeError("paho asks for a socket, and none was adopted")
        return sock
