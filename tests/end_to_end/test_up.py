"""`ivsim up` and `ivsim run --testbed`: runs of other processes follow each other, and a stop ends what it is meant for."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from end_to_end_runs import Runs, Up, processes_of

from tests.one_spark import OneSpark

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

SMALL = ("--vehicles", "3", "--duration", "3", "--quiet")


@pytest.mark.full
def test_runs_of_other_processes_follow_each_other(runs: Runs) -> None:
    first = runs.on_testbed("first", *SMALL, "--protocol", "coap", "--con")
    second = runs.on_testbed("second", *SMALL, "--json")
    for done in (first, second):
        assert done.in_order, done.stderr
        assert done.metrics["delivery_ratio"] == 1.0
        assert processes_of(done.manifest["run"]) == []
        assert (done.directory / "report.html").is_file()
    assert json.loads(second.stdout) == second.metrics
    assert second.manifest["timings_s"]["command_to_first_message_s"] > 0


def test_progress_reaches_the_client_a_refusal_too_and_no_second_testbed_comes_up(runs: Runs) -> None:
    loud = runs.on_testbed("loud", "--vehicles", "3", "--duration", "2")
    assert loud.in_order, loud.stderr
    assert "connecting 3 vehicles" in loud.stderr
    refused = runs.on_testbed("loud", *SMALL)  # its directory is not empty
    assert refused.code == 2
    assert "not empty; name a new directory" in refused.stderr
    assert refused.stderr.count("\n") == 1
    again = runs.call("up")
    assert again.returncode == 2
    assert "a testbed is up already" in again.stderr


@pytest.mark.full
def test_ctrl_c_at_the_client_ends_its_run_alone(runs: Runs) -> None:
    run = runs.start_on_testbed("stopped", "--vehicles", "5", "--duration", "120", "--loss-timeout", "5")
    run.wait_until_emitting(20)
    run.popen.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 128 + signal.SIGINT
    assert done.metrics["partial"] is True
    assert runs.on_testbed("after", *SMALL).in_order


@pytest.mark.full
def test_a_stop_closes_everything_in_the_middle_of_a_run_too(tmp_path: Path) -> None:
    runs = Runs(tmp_path, OneSpark())  # its own: the one that is shared has to stay
    up = Up(tmp_path, runs.state)
    try:
        assert runs.run("whole", "--testbed", *SMALL).in_order
        run = runs.start("cut", "--testbed", "--vehicles", "5", "--duration", "120", "--loss-timeout", "5")
        run.wait_until_emitting(20)
        up.popen.send_signal(signal.SIGTERM)
        assert run.finish().code == 128 + signal.SIGTERM
        assert up.close() == 0
    finally:
        runs.end_all()
    assert list(runs.state.iterdir()) == []
