"""The tables of protocols whose bytes a capture can read; a new one is one module and one line here.

A protocol without a line works all the same: its bytes are counted, and belong to no message. A stream is told by what
the vehicle sends first, a datagram by the server's port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from simulator.capture import amqp, coap, kafka, mqtt, tls
from simulator.capture.units import DatagramFlow, Publications, Scanner


class StreamParser(NamedTuple):
    """One row of `STREAM_PARSERS`.

    Attributes:
        protocol: its name in `PROTOCOLS`, or that of what is around one, or behind a gateway.
        begins: whether a vehicle's first bytes are this protocol's; None while more of them are needed.
        scanner: finds the protocol's units in both directions of one connection.
        readable: whether it can tell messages apart.
    """

    protocol: str
    begins: Callable[[bytes], bool | None]
    scanner: Callable[[Publications], Scanner]
    readable: bool = True


STREAM_PARSERS = (
    StreamParser("mqtt", mqtt.begins, mqtt.MqttScanner),
    StreamParser("amqp", amqp.begins, amqp.AmqpScanner),
    StreamParser("tls", tls.begins, tls.TlsScanner, readable=False),
    StreamParser("kafka", kafka.begins, kafka.KafkaScanner, readable=False),
)

# By the protocol's name in `PROTOCOLS`: reads the datagrams between one vehicle's socket and one server's.
DATAGRAM_PARSERS: dict[str, Callable[[Publications], DatagramFlow]] = {"coap": coap.CoapFlow}
