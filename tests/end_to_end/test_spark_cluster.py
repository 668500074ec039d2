"""A run whose twins are kept by a Spark cluster of its own."""

from __future__ import annotations

import pytest
from end_to_end_runs import Runs, processes_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns, pytest.mark.full]


def test_a_run_on_a_cluster_of_its_own_is_like_any_other(runs: Runs) -> None:
    done = runs.run(
        "cluster", "--spark-master", "cluster[2]", "--vehicles", "5", "--duration", "5", "--loss-timeout", "10",
        "--link", "direct",
    )  # fmt: skip
    assert done.in_order, done.stderr
    assert {row["fate"] for row in done.rows("ledger.parquet")} == {"delivered"}
    assert done.metrics["run_received"] == done.metrics["run_due"] == 25
    assert processes_of(done.manifest["run"]) == []
    assert not (done.directory / "work").exists()
