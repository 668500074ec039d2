"""The table of protocols; a new one is one new file and one line here, or a plug-in of `ivsim.protocols`."""

from __future__ import annotations

from typing import Final

from gateways.protocols.amqp.protocol import Amqp
from gateways.protocols.base import Mode, Protocol
from gateways.protocols.coap.protocol import Coap
from gateways.protocols.mqtt.protocol import Mqtt
from schemas.errors import Refusal
from schemas.plugins import Plugin, Table, checked, made

_ROWS: tuple[Protocol, ...] = (Mqtt(), Amqp(), Coap())


def _row(plugin: Plugin, found: object) -> Protocol:
    row: Protocol = checked(made(found), plugin.name, Protocol)
    return row


PROTOCOLS: Final[Table[Protocol]] = Table("ivsim.protocols", {row.name: row for row in _ROWS}, _row)


def protocol_named(name: str, naming: str = "protocol") -> Protocol:
    """Return a row of the table; Refusal lists what is allowed, after the `naming` of whoever asked for it."""
    if name not in PROTOCOLS:
        raise Refusal(f"{naming} {name[:80]!r}: allowed are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def protocol_and_mode(name: str, mode: str) -> tuple[Protocol, Mode]:
    """Return a row of the table and one of its modes; Refusal lists what is allowed."""
    protocol = protocol_named(name)
    if mode not in protocol.modes:
        raise Refusal(f"mode {mode!r}: allowed with {name} {', '.join(protocol.modes)}")
    return protocol, protocol.modes[mode]


def every_mode() -> dict[str, tuple[Protocol, Mode]]:
    """Return all modes of all protocols by the two names that studies and charts write, such as "mqtt qos1"."""
    return {
        f"{row.name} {mode.name}": (row, mode) for row in PROTOCOLS.values() for mode in row.modes.values()
    }
