"""The servers that a run can start: one line each, or a plug-in of `ivsim.servers`.

The doctor, the preflight and the components read this table.
"""

from __future__ import annotations

from typing import Final

from ivsim.testbed import kafka, mosquitto, pulsar, rabbitmq, redis
from ivsim.testbed.server import ServerKind
from schemas.plugins import Plugin, Table, checked, made

_ALL: Final = (kafka.KIND, mosquitto.KIND, rabbitmq.KIND, redis.KIND, pulsar.KIND)


def _row(plugin: Plugin, found: object) -> ServerKind:
    kind: ServerKind = checked(made(found), plugin.name, ServerKind)
    return kind


SERVERS: Final[Table[ServerKind]] = Table("ivsim.servers", {kind.name: kind for kind in _ALL}, _row)
KAFKA: Final = kafka.KIND.name
