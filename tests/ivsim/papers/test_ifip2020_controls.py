"""Controls of the repeated paper compare what they say they do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ivsim.papers.ifip2020.controls import fewer_vehicles
from ivsim.papers.ifip2020.paper import PaperCells
from ivsim.study.cells import DONE, Cell, Kept, Task
from ivsim.study.engines.echo.observations import EchoObservations

VEHICLES = 12
MODE = "mqtt qos0"


class Told(EchoObservations):
    """Cells whose latency is that of their repetition's stretch of the trace: 100 ms in the first three, and 300 later."""

    mode = MODE

    @property
    def _read(self) -> Any:
        return [(self._messages(kept.task.repetition), None) for kept in self.repetitions]

    def _messages(self, repetition: int) -> Any:
        vehicle = np.arange(4 * VEHICLES) % VEHICLES
        noise = np.random.default_rng(repetition).normal(0, 5, vehicle.size)
        latency_ms = (100.0 if repetition <= 3 else 300.0) + noise
        return SimpleNamespace(vehicle=vehicle, due_ms=np.arange(vehicle.size), latency_ms=latency_ms)


def told(sweep: str, repetitions: int, **values: Any) -> Told:
    cell = Cell(sweep, sweep, {"mode": MODE, **values}, SimpleNamespace(vehicles=VEHICLES))
    kept = [Kept(Task(cell, one), DONE, None, {}, Path()) for one in range(1, repetitions + 1)]
    return Told(cell, kept)


def test_fewer_vehicles_are_compared_with_the_same_repetitions_side_by_side() -> None:
    cells = PaperCells([told("loss_large", 9, loss=0.0), told("fewer", 3, interval_s=20.0)])
    assert cells.get("loss_large", MODE, loss=0.0).latency().estimate > 200
    (row,) = (line for line in fewer_vehicles(cells).splitlines() if MODE in line)
    _, _, beside, alone, apart, more, _ = (part.strip() for part in row.split("|"))
    assert beside == alone
    assert apart.startswith("0 [")
    assert more == "no"
