"""What was measured of each cell, repetitions pooled: figures, samples and intervals; it judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ivsim.study.cells import DONE, FAILED, Cell, Kept
from ivsim.study.clusters import MIN_REPETITIONS, Clusters, of_repetitions
from ivsim.study.messages import Messages
from ivsim.study.statistics import Interval

Floats = npt.NDArray[np.float64]


class CellObservations:
    """The single measurements behind a cell's figures, as far as an engine keeps them; this one keeps none."""

    def interval(self, metric: str) -> Interval | None:
        """Return a metric over single measurements with its 95 % interval; None where the engine has none."""
        del metric
        return None

    def clusters(self, metric: str) -> Clusters | None:
        """Return the single measurements whose mean the metric is, with their units; None where it is no mean of any."""
        del metric
        return None

    def messages(self, metric: str) -> Messages | None:
        """Return what each message has, where the metric is a mean or a quantile over messages; None where it is none."""
        del metric
        return None

    def sample(self, metric: str) -> Floats | None:
        """Return the single measurements whose mean the metric is; None where it is no mean of any."""
        found = self.clusters(metric)
        return None if found is None else found.values


@dataclass
class CellResult:
    """One cell, what became of its repetitions, and what its engine has kept of them."""

    cell: Cell
    kept: list[Kept] = field(default_factory=list)
    observations: CellObservations = field(default_factory=CellObservations)
    # Of the engine: what it has kept of some of the repetitions.
    observe: Callable[[Cell, Sequence[Kept]], CellObservations] | None = None
    _parts: dict[tuple[int, ...], CellResult] = field(default_factory=dict, repr=False)

    @property
    def done(self) -> list[Kept]:
        return [one for one in self.kept if one.state == DONE]

    @property
    def valid(self) -> list[Kept]:
        """Return the repetitions that may decide something: done, and neither degraded nor invalid."""
        return [one for one in self.done if one.verdict == "valid"]

    def of(self, kept: Sequence[Kept]) -> CellResult:
        """Return the cell as if these of its repetitions were all."""
        if list(kept) == self.kept:
            return self
        numbers = tuple(one.task.repetition for one in kept)
        if numbers not in self._parts:
            seen = self.observe(self.cell, kept) if self.observe is not None else CellObservations()
            self._parts[numbers] = CellResult(self.cell, list(kept), seen, self.observe)
        return self._parts[numbers]

    @property
    def sound(self) -> CellResult:
        """Return the cell as its valid repetitions alone have it."""
        return self.of(self.valid)

    @property
    def reasons(self) -> list[str]:
        """Return why repetitions failed."""
        return [one.reason or "unknown" for one in self.failures]

    @property
    def failures(self) -> list[Kept]:
        return [one for one in self.kept if one.state == FAILED]

    def figures(self, metric: str) -> dict[int, float]:
        """Return the figure of each repetition that has it, by its number."""
        found = {one.task.repetition: one.figures.get(metric) for one in self.done}
        return {number: float(value) for number, value in found.items() if isinstance(value, int | float)}

    def values(self, metric: str) -> Floats:
        """Return the figure of each repetition that has it."""
        return np.array(list(self.figures(metric).values()))

    def interval(self, metric: str) -> Interval:
        """Return a metric with its interval: over units of single measurements if it has them, else over repetitions."""
        if not self.done:
            return Interval(None, None, None, 0)
        return self.observations.interval(metric) or of_repetitions(self.values(metric))

    @property
    def enough(self) -> bool:
        """Return whether enough repetitions are done for a verdict."""
        return len(self.done) >= MIN_REPETITIONS

    @property
    def validity(self) -> str:
        """Return the worst validity of the repetitions measured: valid, degraded or invalid; valid where an engine has none."""
        verdicts = {one.verdict for one in self.kept if one.state == DONE or one.invalid}
        return next((verdict for verdict in ("invalid", "degraded") if verdict in verdicts), "valid")


def done_of(results: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells of which at least one repetition is done."""
    return [result for result in results if result.done]
