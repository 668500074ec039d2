"""The table of protocols; a new one is one new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateways.protocols.amqp import Amqp
from gateways.protocols.base import Protocol
from gateways.protocols.coap import Coap
from gateways.protocols.mqtt import Mqtt

_ROWS: tuple[Protocol, ...] = (Mqtt(), Amqp(), Coap())

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({p.name: p for p in _ROWS})
