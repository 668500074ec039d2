"""The table of protocols; a new one is one new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateways.protocols.base import Protocol

_ROWS: tuple[Protocol, ...] = ()

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({p.name: p for p in _ROWS})
