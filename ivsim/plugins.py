"""Every plug-in of this environment, tried: which table it joins, or why it does not."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

from schemas.plugins import Plugin, Table, installed

# group of entry points -> where its table is
TABLES: Final = {
    "ivsim.formats": "schemas.formats:FORMATS",
    "ivsim.protocols": "gateways.protocols:PROTOCOLS",
    "ivsim.servers": "ivsim.testbed.servers:SERVERS",
    "ivsim.importers": "simulator.traces.importers:IMPORTERS",
    "ivsim.vehicle_logs": "simulator.logs:LOG_READERS",
    "ivsim.engines": "ivsim.study.engines:ENGINES",
    "ivsim.platforms": "ivsim.study.engines.pipe.platforms:PLATFORMS",
    "ivsim.papers": "ivsim.papers:PAPERS",
}


class Listed(NamedTuple):
    """A plug-in and why it cannot be used; None where it can."""

    plugin: Plugin
    refusal: str | None

    @property
    def state(self) -> str:
        """Return one word."""
        return "usable" if self.refusal is None else "refused"


def listed() -> list[Listed]:
    """Return every plug-in, by group and name; each is loaded."""
    return [Listed(plugin, _reason(plugin)) for plugin in installed()]


def table_of(group: str) -> Table[Any]:
    """Return the table that a group extends; KeyError for a group that extends none."""
    module, _, name = TABLES[group].partition(":")
    table: Table[Any] = getattr(import_module(module), name)
    return table


def _reason(plugin: Plugin) -> str | None:
    if plugin.group not in TABLES:
        return str(plugin.refusal(f"no such kind of part; there are {', '.join(TABLES)}"))
    return table_of(plugin.group).reason(plugin.name)
