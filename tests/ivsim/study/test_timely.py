"""Timely messages of a run and what the link carried for each, from made-up ledgers, by hand; and the study that asks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.study.catalogue import study_named
from ivsim.study.engines.base import engine_named
from ivsim.study.engines.whole_run.timely import TIMELY_METRICS, timely_figures
from ivsim.study.model import cells_of
from schemas.errors import Refusal

MS = 1_000_000
# Due in ms, fate, in the window, end-to-end latency in ms: a warm-up, a window from 1,000 to 3,000, and one behind it.
ROWS = [
    (0, "delivered", False, 10),
    (1_000, "delivered", True, 100),
    (1_500, "delivered", True, 500),
    (2_000, "delivered", True, 501),
    (2_500, "lost", True, None),
    (3_000, "delivered", False, 50),
]
WIRE = {"wire_bytes_uplink": 2_000, "wire_bytes_downlink": 400}


def written(tmp_path: Path, rows: list[tuple[int, str, bool, int | None]]) -> Path:
    due, fates, inside, latency = zip(*rows, strict=True)
    table = pa.table(
        {
            "due_at_ns": pa.array([at * MS for at in due], pa.int64()),
            "fate": fates,
            "in_window": inside,
            "end_to_end_latency_ns": pa.array(
                [None if ms is None else ms * MS for ms in latency], pa.int64()
            ),
        }
    )
    pq.write_table(table, tmp_path / "ledger.parquet")
    return tmp_path


def test_what_is_late_or_lost_is_not_timely_and_the_link_carried_it_all_the_same(tmp_path: Path) -> None:
    found = timely_figures(written(tmp_path, ROWS), WIRE, 500.0)
    # The link's bytes are those after the warm-up: of the message behind the window, too.
    assert found == {"timely_ratio": 2 / 4, "link_bytes_per_timely_message": 2_400 / 3}
    assert set(found) == set(TIMELY_METRICS)
    assert timely_figures(tmp_path, WIRE, 499.0)["timely_ratio"] == 1 / 4


@pytest.mark.parametrize(
    ("rows", "wire", "known"),
    [
        (ROWS, {**WIRE, "wire_bytes_downlink": None}, {"timely_ratio"}),
        (ROWS, {}, {"timely_ratio"}),
        ([*ROWS, (2_600, "unknown", True, None)], WIRE, set()),
        ([*ROWS, (3_100, "unknown", False, None)], WIRE, {"timely_ratio"}),
        ([(1_000, "lost", True, None)], WIRE, {"timely_ratio"}),
        ([(0, "delivered", False, 10)], WIRE, set()),
    ],
)
def test_what_is_not_known_is_no_figure(
    tmp_path: Path,
    rows: list[tuple[int, str, bool, int | None]],
    wire: dict[str, int | None],
    known: set[str],
) -> None:
    assert set(timely_figures(written(tmp_path, rows), wire, 500.0)) == known


def test_without_a_ledger_nothing_is_known(tmp_path: Path) -> None:
    assert timely_figures(tmp_path, WIRE, 500.0) == {}


def test_the_fleet_study_has_every_policy_behind_every_link() -> None:
    study, path = study_named("edge-batching")
    cells = cells_of(study, str(path))
    links = {(cell.values["trace"], cell.values["loss"]) for cell in cells}
    assert links == {("paper-rtt", 0.0), ("paper-rtt", 0.08), ("car-uplink-2012", 0.0)}
    ways = [("fixed", 1), ("fixed", 50), ("deadline", 1), ("reactive", 1), ("timely", 1)]
    assert len(cells) == len(links) * len(ways)
    found = {
        (*link, cell.values["batching"], cell.values["batch_messages"]) for link in links for cell in cells
    }
    assert found == {(*link, *way) for link in links for way in ways}
    assert {cell.options.batch_limit_ms for cell in cells} == {500.0}
    assert {cell.options.topology for cell in cells} == {"edge"}


@pytest.mark.parametrize("topology", ["echo", "peer", "moon"])
def test_a_whole_run_goes_through_gateways(topology: str) -> None:
    engine = engine_named("whole_run")
    for said in (({"topology": topology}, {}), ({}, {"topology": topology})):
        with pytest.raises(
            Refusal, match=rf"^topology '{topology}': the engine whole_run has gateway, edge, ingest$"
        ):
            engine.checked(*said)
    assert engine.axes()["topology"].allowed == engine.fields()["topology"].allowed == "gateway, edge, ingest"


def test_a_figure_of_batches_needs_batches() -> None:
    engine = engine_named("whole_run")
    fixed = {"topology": "edge", "vehicles": 4}
    study, path = study_named("edge-batching")
    (cell, *_) = cells_of(study, str(path))
    none = cell._replace(options=engine.checked(fixed, {}).options)
    for name in TIMELY_METRICS:
        assert engine.unmeasurable(cell, name) is None
        assert engine.unmeasurable(none, name) == "needs batching, whose limit it is about"
    assert engine.unmeasurable(none, "answers") == "needs a query"
    with pytest.raises(Refusal, match="measured in no cell: it needs a query"):
        cells_of(study.model_copy(update={"metrics": ["answers"]}), str(path))
