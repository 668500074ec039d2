"""A study of whole runs: its cells follow each other on one Kafka and one Spark, and nothing stays behind.

Three cells, of which a signal ends the last: a testbed takes most of the time, so one serves all that is asked here.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from end_to_end_runs import processes_of

from ivsim import Testbed
from ivsim.audit import audit
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.started import StartedRun
from ivsim.study import execution
from ivsim.study.cells import DONE, OPEN
from ivsim.study.engines.whole_run import engine
from ivsim.study.model import Study, cells_of
from ivsim.study.store import Store
from ivsim.testbed import leftovers
from ivsim.testbed.kafka_admin import topics_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]


ASKED = Study.model_validate(
    {
        "title": "t",
        "question": "q",
        "engine": "whole_run",
        "metrics": ["delivery_ratio"],
        "scenario": {"vehicles": 3, "duration_s": 3.0, "loss_timeout_s": 20.0, "link": "direct"},
        "axes": {"mode": ["mqtt qos1", "coap con", "mqtt qos0"]},
        "repetitions": 1,
    }
)
DUE = 9


class Watched(Testbed):
    """A testbed that notes, by run, which processes served it and which runs have topics; SIGTERM comes in the third."""

    pids: ClassVar[list[tuple[int, int]]] = []
    prefixes: ClassVar[list[set[str]]] = []

    def run(self, *arguments: Any, disturb: Any, **words: Any) -> Any:
        noted = False

        def watch(started: StartedRun) -> None:
            nonlocal noted
            disturb(started)
            if noted or not started.publisher.totals().get("emitted", 0):
                return
            noted, components, kafka = True, started.components, started.components.endpoints.kafka
            assert components.twin is not None
            self.pids.append((components.servers["kafka"].process.pid, components.twin.process.pid))
            self.prefixes.append({name.split(".")[1] for name in topics_of(kafka.bootstrap, "ivsim.")})
            if len(self.pids) == 3:
                os.kill(os.getpid(), signal.SIGTERM)

        return super().run(*arguments, disturb=watch, **words)


@pytest.mark.full
def test_cells_share_one_kafka_and_one_spark_until_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(engine, "Testbed", Watched)
    store = Store.create(tmp_path / "results", "t", ASKED, quick=False)
    cells = cells_of(ASKED, "here")
    with pytest.raises(Interrupted, match="SIGTERM"):
        execution.run_study(store, cells)

    kept = store.all_kept(cells)
    assert sorted(one.state for one in kept) == [DONE, DONE, OPEN], [one.reason for one in kept]
    for one in kept:
        manifest = json.loads((one.directory / "manifest.json").read_text())
        assert processes_of(manifest["run"]) == []
        assert not (one.directory / "work").exists()
        if one.state == DONE:
            assert (one.figures["due"], one.figures["delivered"]) == (DUE, DUE)
            assert one.figures["live"]["verdict"] == "agree"
            assert audit(one.directory).agrees
        else:  # it ended in order: what had happened is accounted for, and no result of the cell
            assert json.loads((one.directory / "metrics.json").read_text())["partial"] is True
    assert len(Watched.pids) == len(kept)
    assert len(set(Watched.pids)) == 1, "a Kafka or a Spark was started again"
    # What the runs before had in Kafka is gone: each run finds its own topics alone.
    assert [len(runs) for runs in Watched.prefixes] == [1] * len(kept)
    assert not any(Path(f"/proc/{pid}").exists() for pid in Watched.pids[0])
    assert list((tmp_path / "state").iterdir()) == []
    assert leftovers.find() == []
    assert not (store.path / "work").exists()
