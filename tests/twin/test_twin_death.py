"""A twin whose Java is gone says so in one line, as its owner is told it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ivsim.testbed.child import Child
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from tests.twin.made_up import MadeUpRun


def java_of(child: Child) -> int:
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    return next(int(pid) for pid in children if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.mark.spark
@pytest.mark.kafka
def test_a_killed_java_is_named_with_its_signal(
    run_record: RunRecord, run: MadeUpRun, tmp_path: Path
) -> None:
    alone, path = run.config.model_copy(update={"topology": "echo", "bootstrap": ""}), tmp_path / "twin.json"
    path.write_text(alone.model_dump_json())
    with Child("twin", ["twin", str(path)], run_record) as child:
        child.wait_for("ready", 120)
        os.kill(java_of(child), signal.SIGKILL)
        path.write_text(run.config.model_dump_json())
        child.send("open", config=str(path))
        with pytest.raises(ProcessDied) as died:
            child.wait_for("ready", 120)
    assert died.value.line.startswith("twin ")
    assert ": Spark's Java was ended by SIGKILL: " in died.value.line
