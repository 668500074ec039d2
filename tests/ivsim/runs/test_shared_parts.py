"""What outlives a run keeps nothing of its own in the run's directory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ivsim import run_options
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.runner import make_plan
from ivsim.runs.shared_parts import SharedParts
from ivsim.testbed.registry import RunRecord
from schemas.topics import KafkaTopics


@pytest.mark.parametrize("keep", [True, False])
def test_a_spark_that_lives_on_keeps_its_state_out_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    """It writes some seconds after a run too, and `ivsim report` takes a run with scratch for one that goes on."""
    work = tmp_path / "testbed"
    work.mkdir()
    plan = make_plan(run_options(), tmp_path / "run")
    opened: list[dict[str, Any]] = []
    with (
        RunRecord("shared-parts", work) as record,
        SharedParts(record, keep=keep) as shared,
        ExitStack() as stack,
    ):
        monkeypatch.setattr(shared.twin, "open", lambda config, _: opened.append(config))
        shared.open_twin(plan, KafkaAddress("", KafkaTopics("")), stack)
        checkpoint = Path(opened[0]["checkpoint_dir"])
        assert checkpoint.is_relative_to(work if keep else plan.directory.work)
        checkpoint.mkdir(parents=True)
        stack.close()
        assert checkpoint.exists() is not keep
