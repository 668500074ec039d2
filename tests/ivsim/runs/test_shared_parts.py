"""What outlives a run keeps nothing of its own in the run's directory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim import run_options
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.memory import MEASURED, RUNNER
from ivsim.runs.runner import make_plan
from ivsim.runs.shared_parts import SharedParts
from ivsim.runs.testbed import Testbed
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
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


def test_what_is_up_is_named_as_the_memory_of_runs_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunRecord("shared-parts", tmp_path) as record, SharedParts(record, keep=True) as shared:
        assert shared.up() == {RUNNER}
        monkeypatch.setattr(shared, "_kafka", {"kafka-full": []})
        monkeypatch.setattr(shared.twin, "running", lambda: True)
        link = SimpleNamespace(link=SimpleNamespace(name="uml"), kept={"rabbitmq"})
        monkeypatch.setattr(shared, "_link", link)
        assert shared.up() == {RUNNER, "kafka", "spark", "uml", "rabbitmq"} <= set(MEASURED)
        monkeypatch.setattr(shared, "_link", None)
    with RunRecord("shared-parts", tmp_path) as record, SharedParts(record, keep=False) as shared:
        assert shared.up() == set()


def test_a_testbed_says_what_it_has_up_before_it_plans_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refuse(*arguments: object) -> None:
        asked.extend(arguments)
        raise Refusal("no more is asked")

    monkeypatch.setattr("ivsim.runs.testbed.make_plan", refuse)
    options = run_options()
    with Testbed(tmp_path) as testbed, pytest.raises(Refusal, match="no more is asked"):
        testbed.run(options)
    assert asked == [options, None, {RUNNER}]
