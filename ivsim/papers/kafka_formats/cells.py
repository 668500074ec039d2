"""What the thesis's cells are called, and how one of them is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ivsim.papers import parts
from ivsim.papers.parts import Figures
from ivsim.study.results import CellResult

JSON, MSGPACK, AVRO, PROTOBUF = "json", "msgpack", "avro", "protobuf"
FORMATS: Final = (JSON, MSGPACK, AVRO, PROTOBUF)
S1, S2, S3 = "s1", "s2", "s3"
SIZES: Final = (S1, S2, S3)
BATCH, SINGLE = "document", "document-single"
# How the thesis calls its scenarios.
SCENARIOS: Final = {BATCH: "B", SINGLE: "O"}
LABELS: Final = {JSON: "JSON", MSGPACK: "MessagePack", AVRO: "Avro", PROTOBUF: "Protobuf"}


class Cells(parts.Cells):
    """The study's cells, found by sweep and values.

    Args:
        found: all of them.
        instead: a format that stands for another, where the thesis leaves open which of two ways it had.
    """

    def __init__(self, found: Sequence[CellResult], instead: Mapping[str, str] | None = None) -> None:
        super().__init__(found)
        self._instead = dict(instead or {})

    def get(self, sweep: str, **values: Any) -> CellResult | None:
        """Return a cell; None where it was not measured."""
        if "format" in values:
            values["format"] = self._instead.get(values["format"], values["format"])
        return super().get(sweep, **values)

    def core(self, metric: str, record: str, profile: str, name: str) -> Figures:
        """Return a figure of the thesis's own design: its record, scenario and format."""
        return self.figures(metric, "core", record=record, profile=profile, format=name)
