"""The table of foreign formats and the choice among them.

A new format is one file and one line here, or a plug-in of `ivsim.importers`.
"""

from __future__ import annotations

from pathlib import Path

from schemas.errors import Refusal
from schemas.plugins import Plugin, Table, checked, made
from simulator.traces.importers.base import Importer, Source
from simulator.traces.importers.cooked import COOKED
from simulator.traces.importers.gnettrack import GNETTRACK
from simulator.traces.importers.interval_log import INTERVAL_LOG
from simulator.traces.importers.iperf3 import IPERF3
from simulator.traces.importers.mahimahi import MAHIMAHI
from simulator.traces.importers.mtu import MTU
from simulator.traces.importers.nuttcp import NUTTCP
from simulator.traces.importers.nyu import NYU
from simulator.traces.importers.options import Options, option
from simulator.traces.importers.own import OWN
from simulator.traces.importers.ping import PING
from simulator.traces.importers.sabre import SABRE
from simulator.traces.importers.table import TABLE
from simulator.traces.model import Trace
from simulator.traces.source import lines_of, read_text

__all__ = ["IMPORTERS", "Importer", "Options", "Source", "detect", "import_trace"]

_ALL = (OWN, GNETTRACK, MAHIMAHI, INTERVAL_LOG, SABRE, COOKED, PING, IPERF3, NUTTCP, MTU, NYU, TABLE)


def _row(plugin: Plugin, found: object) -> Importer:
    row: Importer = checked(made(found), plugin.name, Importer)
    return row


IMPORTERS: Table[Importer] = Table("ivsim.importers", {i.name: i for i in _ALL}, _row)
_HEAD_LINES = 20
_HEAD_CHARACTERS = 4_000


def import_trace(path: str | Path, format: str = "auto", options: Options | None = None) -> Trace:  # noqa: A002
    """The trace in a foreign file.

    Args:
        path: the file.
        format: a name of `IMPORTERS`, or `auto`: the one importer that recognises the first lines.
        options: the stated policies; None for every importer's defaults.

    Raises:
        Refusal: bad input, an unknown or ambiguous format, an option the importer does not know.
    """
    path, options = Path(path), options or Options()
    if path.name.startswith("."):
        raise Refusal(f"{path}: a dot file (a lock file or a resource fork), not a trace")
    source = Source(path, read_text(path))
    importer = _named(format) if format != "auto" else detect(source)
    for name in options.given():
        if name not in importer.options:
            known = ", ".join(sorted(option(n) for n in importer.options)) or "none"
            raise Refusal(f"{option(name)}: has no meaning for {importer.name} files, which take {known}")
    return importer.read(source, options)


def _named(name: str) -> Importer:
    if name not in IMPORTERS:
        raise Refusal(f"--from {name!r}: must be auto or one of {', '.join(IMPORTERS)}")
    return IMPORTERS[name]


def detect(source: Source) -> Importer:
    """The one importer that recognises the file.

    Raises:
        Refusal: none does, or several do.
    """
    head = [line for line in lines_of(source.text[:_HEAD_CHARACTERS]) if line.strip()][:_HEAD_LINES]
    if len(source.text) > _HEAD_CHARACTERS and len(head) < _HEAD_LINES and len(head) > 1:
        head.pop()
    found = [importer for importer in IMPORTERS.values() if importer.recognises(head)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(i.name for i in found or IMPORTERS.values())
    problem = "several importers recognise it" if found else "no importer recognises it"
    raise Refusal(
        f"{source.path}: {problem}: say which with --from, one of {names} (line 1: {head[0][:60]!r})"
    )
