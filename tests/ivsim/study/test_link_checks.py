"""Loss of a study's links: bursts widen the interval, and a session's log that is damaged is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.study.engines.echo import link_checks
from schemas.errors import Refusal
from schemas.json_files import write_json


def session(study: Path, number: int, lost: np.ndarray, asked: float = 0.1, packets: int = 100) -> Path:
    """Write a session whose vehicle k lost `lost[k]` of so many packets on its downlink, in one second."""
    directory = study / "sessions" / f"{number:03d}"
    directory.mkdir(parents=True)
    write_json(directory / "session.json", {"replay": {}})
    vehicles = lost.size
    columns = {
        "second": np.zeros(vehicles, np.int32),
        "vehicle_id": [f"vehicle-{k:06d}" for k in range(vehicles)],
        "direction": ["downlink"] * vehicles,
        "asked_loss_ratio": np.full(vehicles, asked),
        "qdisc_packets": packets - lost,
        "drops": lost,
        "queue_drops": np.zeros(vehicles, np.int64),
    }
    pq.write_table(pa.table(columns), directory / "link.parquet")
    return directory / "link.parquet"


def row(study: Path) -> list[str]:
    (section,) = link_checks.sections(study)
    return next(line for line in section.splitlines() if line.startswith("| downlink")).split(" | ")


def test_links_that_lose_in_bursts_have_a_wider_interval(tmp_path: Path):
    even, bursty = tmp_path / "even", tmp_path / "bursty"
    for number in range(3):
        session(even, number, np.full(20, 9) + np.arange(20) % 3)
        session(bursty, number, np.where(np.arange(20) % 10 == number, 90, 0))
    width = {}
    for study in (even, bursty):
        shown = row(study)[3]
        low, high = (float(text) for text in shown.partition("[")[2].rstrip("]").split(", "))
        width[study] = high - low
    assert width[bursty] > 5 * width[even]
    assert row(even)[-1].startswith("pass")
    # 9 % in a few bursts is 10 % for all that can be said; to packets for the unit it was not.
    assert row(bursty)[-1].startswith("pass")


def test_another_ratio_than_the_one_asked_is_off(tmp_path: Path):
    session(tmp_path, 1, np.full(40, 30))
    assert row(tmp_path)[-1].startswith("off")


def test_a_log_cut_short_is_refused_by_name(tmp_path: Path):
    path = session(tmp_path, 1, np.full(5, 10))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(Refusal, match=r"link\.parquet: no whole Parquet file"):
        link_checks.sections(tmp_path)
