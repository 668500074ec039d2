"""Our own schema among the importers, so that a file of ours imports as itself."""

from __future__ import annotations

from simulator.traces.files import SCHEMA_KEY, parse_csv
from simulator.traces.importers.base import Importer, Source
from simulator.traces.importers.options import Options
from simulator.traces.model import Trace


def _recognises(lines: list[str]) -> bool:
    return lines[0].startswith((f"# {SCHEMA_KEY}:", "time_s,"))


def _read(source: Source, _: Options) -> Trace:
    return parse_csv(source.text, source.path)


OWN = Importer("ivsim", "our own CSV", frozenset(), _recognises, _read)
