"""Deletes the queue that a client has left at a broker."""

from __future__ import annotations

from typing import Final

import pika
import pika.exceptions

from gateways.protocols.base import Endpoint
from gateways.protocols.tls import blocking_context

ANSWER_S: Final = 10.0


def delete_queue(endpoint: Endpoint, name: str) -> None:
    """Delete a queue, or do nothing where there is none of this name (AMQP 0-9-1, 1.7.2.9; RabbitMQ's errata).

    OSError or ValueError when the broker does not answer, or refuses.
    """
    credentials = pika.PlainCredentials(endpoint.username or "guest", endpoint.password or "guest")
    options = None
    if endpoint.tls is not None:
        options = pika.SSLOptions(blocking_context(endpoint.tls), endpoint.host)
    parameters = pika.ConnectionParameters(
        endpoint.host, endpoint.port, credentials=credentials, ssl_options=options, socket_timeout=ANSWER_S,
        blocked_connection_timeout=ANSWER_S,
    )  # fmt: skip
    try:
        connection = pika.BlockingConnection(parameters)
        try:
            connection.channel().queue_delete(name)
        finally:
            connection.close()
    except pika.exceptions.AMQPError as error:
        raise ValueError(str(error) or type(error).__name__) from error
