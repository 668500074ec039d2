"""A study with results that are made up: no link, no broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from study_made_up import keep_echo

from ivsim.study.cells import Cell, Task
from ivsim.study.model import Study, cells_of
from ivsim.study.store import Store


@pytest.fixture
def made_study() -> Study:
    return Study.model_validate(
        {
            "title": "Made up",
            "question": "Which is faster?",
            "metrics": ["latency_mean_ms", "unsuccessful_ratio", "crossing_overhead_bytes"],
            "engine": "echo",
            "repetitions": 3,
            "scenario": {"vehicles": 5, "interval_s": 10.0, "duration_s": 100.0},
            "axes": {"mode": ["mqtt qos0", "coap non"], "loss": [0.0, 0.25]},
        }
    )


@pytest.fixture
def made_store(tmp_path: Path, made_study: Study) -> Callable[..., tuple[Store, list[Cell]]]:
    """Return a function that keeps every cell: `mean(cell)` is its latency."""

    def make(name: str, mean: Callable[[Cell], float], **fields: Any) -> tuple[Store, list[Cell]]:
        study = Study.model_validate(made_study.model_dump() | fields)
        store = Store.create(tmp_path / name, name, study, quick=False)
        cells = cells_of(study, name)
        for cell in cells:
            for repetition in range(1, study.repetitions + 1):
                keep_echo(store, Task.of(cell, repetition), mean(cell))
        return store, cells

    return make
