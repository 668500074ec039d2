"""Takes off a broker that is there what a run has left on it: sessions (MQTT) and queues (AMQP); never what others have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import paho.mqtt.client as mqtt
import pika
import pika.exceptions
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateways.protocols.base import Tls
from ivsim.target import Target, tls_context

ANSWER_S: Final = 10.0


class Client(NamedTuple):
    """A client of the run, as the broker knew it.

    Attributes:
        name: its client identifier, or its queue.
        username, password: None logs in as nobody.
        tls: None goes there in the clear.
    """

    name: str
    username: str | None
    password: str | None
    tls: Tls | None


def leave_as_found(target: Target, clients: Iterable[Client]) -> list[str]:
    """End what these clients have left; return a line for each of which it cannot be said."""
    remove = REMOVERS[target.protocol]
    problems = []
    for client in clients:
        try:
            remove(target, client)
        except (OSError, ValueError, pika.exceptions.AMQPError) as error:
            words = str(error) or type(error).__name__
            problems.append(f"{target} may keep {client.name}: {words.splitlines()[0]}")
    return problems


def _end_session(target: Target, client: Client) -> None:
    """Begin a session anew and end it at once (MQTT 5, 3.1.2.4 and 3.1.2.11.2): the broker forgets the one before."""
    answered: list[Any] = []
    one = mqtt.Client(CallbackAPIVersion.VERSION2, client.name, protocol=mqtt.MQTTv5)
    one.username_pw_set(client.username, client.password)
    if client.tls is not None:
        one.tls_set_context(tls_context(client.tls))
    one.on_connect = lambda _client, _data, _flags, code, _properties: answered.append(code)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 0
    one.connect_timeout = ANSWER_S
    one.connect(target.host, target.port, clean_start=True, properties=properties)
    try:
        for _ in range(round(ANSWER_S * 10)):
            if answered or one.loop(timeout=0.1) != mqtt.MQTT_ERR_SUCCESS:
                break
    finally:
        one.disconnect()
        one.loop(timeout=0.1)
    if not answered:
        raise ValueError("no answer")
    if answered[0].is_failure:
        raise ValueError(f"refused: {answered[0]}")


def _delete_queue(target: Target, client: Client) -> None:
    credentials = pika.PlainCredentials(client.username or "guest", client.password or "guest")
    options = None if client.tls is None else pika.SSLOptions(tls_context(client.tls), target.host)
    parameters = pika.ConnectionParameters(
        target.host, target.port, credentials=credentials, ssl_options=options, socket_timeout=ANSWER_S,
        blocked_connection_timeout=ANSWER_S,
    )  # fmt: skip
    connection = pika.BlockingConnection(parameters)
    try:
        connection.channel().queue_delete(client.name)
    finally:
        connection.close()


REMOVERS: Final[Mapping[str, Callable[[Target, Client], None]]] = {
    "mqtt": _end_session,
    "amqp": _delete_queue,
}
