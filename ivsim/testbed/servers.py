"""The servers that a run can start: one line each; the doctor, the preflight and the components read this table."""

from __future__ import annotations

from typing import Final

from ivsim.testbed import kafka, mosquitto, pulsar, rabbitmq, redis
from ivsim.testbed.server import ServerKind

SERVERS: Final[dict[str, ServerKind]] = {
    kind.name: kind for kind in (kafka.KIND, mosquitto.KIND, rabbitmq.KIND, redis.KIND, pulsar.KIND)
}
KAFKA: Final = kafka.KIND.name
