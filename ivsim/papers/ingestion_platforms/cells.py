"""What the study's cells are called, and how one of them is found, at one durability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ivsim.papers import parts
from ivsim.papers.parts import Figures
from ivsim.study.results import CellResult

KAFKA, PULSAR, REDIS = "kafka", "pulsar", "redis"
LABELS: Final = {KAFKA: "K", PULSAR: "P", REDIS: "R"}
KB1, KB65, KB600 = "b1k", "b65k", "b600k"
SIZES: Final = (KB1, KB65, KB600)
BYTES: Final = {KB1: 1_000, KB65: 65_000, KB600: 600_000}
CACHE, SYNCED = "cache", "synced"
SPEED, MEGABYTES = "records_per_s", "payload_mb_per_s"
MEAN, TAIL = "latency_mean_ms", "latency_p999_ms"


class Load(NamedTuple):
    """One load of the open loop: its sweep, size and rate (1/s), and what the thesis had at its place."""

    sweep: str
    record: str
    rate: float
    thesis_rate: float

    @property
    def text(self) -> str:
        return f"{BYTES[self.record] // 1_000} kB {self.rate:g}/s"


# A fifth of the thesis's rates.
LOW: Final = {
    KB1: Load("small", KB1, 200.0, 1_000),
    KB65: Load("medium", KB65, 20.0, 100),
    KB600: Load("large", KB600, 10.0, 50),
}
HIGH: Final = {
    KB1: Load("small", KB1, 1_000.0, 5_000),
    KB65: Load("medium", KB65, 100.0, 500),
    KB600: Load("large", KB600, 40.0, 200),
}
LOADS: Final = tuple(load for record in SIZES for load in (LOW[record], HIGH[record]))


class Cells(parts.Cells):
    """The study's cells at one durability.

    Args:
        found: all of them.
        durability: CACHE or SYNCED.
    """

    def __init__(self, found: Sequence[CellResult], durability: str) -> None:
        super().__init__(found)
        self._durability = durability

    def capacity(self, metric: str, record: str, platform: str) -> Figures:
        """Return a figure of a platform at full speed."""
        return self.figures(metric, "capacity", record=record, platform=platform, durability=self._durability)

    def load(self, metric: str, load: Load, platform: str) -> Figures:
        """Return a figure of a platform at a rate."""
        return self.figures(
            metric, load.sweep, rate=load.rate, platform=platform, durability=self._durability
        )
