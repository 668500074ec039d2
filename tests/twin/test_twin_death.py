"""A twin whose Java is gone says so in one line, as its owner is told it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ivsim.testbed.child import Child
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from tests.twin.made_up import SECOND, MadeUpRun
from twin.config import TwinConfig

JARS = Path(__file__).resolve().parents[2] / ".jars" / "spark"


def java_of(child: Child) -> int:
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    return next(int(pid) for pid in children if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.mark.spark
def test_a_killed_java_is_named_with_its_signal(run_record: RunRecord, tmp_path: Path) -> None:
    config = TwinConfig(run_dir=str(tmp_path), topology="echo", jars_dir=str(JARS))
    made = MadeUpRun(config)
    row = made.due(1, 1)
    row["received_at_ns"] = row["emitted_at_ns"] + SECOND
    made.write()
    path = tmp_path / "twin.json"
    path.write_text(json.dumps(config.model_dump()))
    with Child("twin", ["twin", str(path)], run_record) as child:
        child.wait_for("ready", 120)
        os.kill(java_of(child), signal.SIGKILL)
        child.send("ledger", partial=[])
        with pytest.raises(ProcessDied) as died:
            child.wait_for("ledger", 120)
    assert died.value.line.startswith("twin ")
    assert ": Spark's Java was ended by SIGKILL: " in died.value.line
