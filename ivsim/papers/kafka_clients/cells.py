"""What the study's cells are called, what was published of them, and the ratios of one repetition's pair of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ivsim.papers import parts
from ivsim.papers.parts import Figures
from ivsim.study.results import CellResult

# The official client in the process, the same with one call for many records, and librdkafka.
JAVA, BATCHED, LIBRDKAFKA = "kafka-jpype", "kafka-jpype-batched", "kafka"
SIZES: Final = (100, 1_000, 10_000, 100_000)
COUNTS: Final = (1_000, 10_000)
DOCUMENT: Final = "document"
# Sweeps of one named setting each; of the others than the document's with the lower count alone.
SETTINGS: Final = (DOCUMENT, "defaults", "neutral", "warm")
PRODUCE, CONSUME, ROUND_TRIP = "produce_ms", "consume_ms", "latency_mean_ms"
LOOP_OF: Final = {PRODUCE: "stream", CONSUME: "stream", ROUND_TRIP: "burst"}
LABELS: Final = {PRODUCE: "produce", CONSUME: "consume", ROUND_TRIP: "round trip"}

# 100 x mean of J / mean of L, and the same of standard deviations: metric -> count -> one for each size.
PUBLISHED: Final = {
    PRODUCE: {
        1_000: ((217.8, 193.16), (82.5, 158.72), (84.45, 65.53), (86.78, 115.88)),
        10_000: ((251.97, 357.5), (73.4, 164.51), (104.41, 32.73), (90.28, 155.2)),
    },
    CONSUME: {
        1_000: ((22.09, 263.38), (6.39, 547.69), (67.44, 22.85), (122.77, 270.27)),
        10_000: ((30.51, 203.03), (17.88, 9.14), (117.37, 281.25), (135.35, 828.3)),
    },
    ROUND_TRIP: {
        1_000: ((3.82, 6.86), (4.37, 7.34), (9.08, 12.33), (26.68, 20.42)),
        10_000: ((18.49, 21.33), (16.78, 33.28), (32.28, 34.64), (48.28, 53.39)),
    },
}


class Cells(parts.Cells):
    """The study's cells."""

    def __init__(self, found: Sequence[CellResult]) -> None:
        super().__init__(found)
        self._found = found

    def of_sweep(self, sweep: str) -> list[CellResult]:
        """Return the cells of a sweep."""
        return [one for one in self._found if one.cell.sweep == sweep]

    def of(self, metric: str, size: int, count: int, client: str, sweep: str = DOCUMENT) -> Figures:
        """Return a figure of a client in each repetition."""
        return self.figures(metric, sweep, client=client, loop=LOOP_OF[metric], bytes=size, messages=count)

    def pairs(
        self,
        metric: str,
        size: int,
        count: int,
        *,
        sweep: str = DOCUMENT,
        above: str = JAVA,
        below: str = LIBRDKAFKA,
    ) -> dict[int, tuple[float, float]]:
        """Return both clients' figures of each repetition that has them, above 0; the pair is the unit."""
        first, second = (self.of(metric, size, count, one, sweep) for one in (above, below))
        return {
            one: (first[one], second[one])
            for one in sorted(first.keys() & second.keys())
            if first[one] > 0 and second[one] > 0
        }

    def ratios(self, metric: str, size: int, count: int, **more: str) -> dict[int, float]:
        """Return above over below of each repetition."""
        return {one: a / b for one, (a, b) in self.pairs(metric, size, count, **more).items()}


def named(metric: str, size: int, count: int) -> str:
    """Return a cell in a few words."""
    return f"{LABELS[metric]} {count:,} x {size:,} B"
