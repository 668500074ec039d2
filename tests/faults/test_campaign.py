"""A real run of a campaign: three faults at the same time, and nothing that was acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.chaos.campaign import run_schedule
from ivsim.chaos.schedule import Planned, Schedule
from ivsim.runs.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]


@pytest.mark.full
def test_faults_that_overlap_break_no_promise(tmp_path: Path, testbed: Testbed) -> None:
    faults = (
        Planned("kafka-pause", 2.0, 4.0),
        Planned("gateway-kill", 3.0, 1.0),
        Planned("broker-pause", 3.5, 2.0),
    )
    row = run_schedule(Schedule("whole", "mqtt", "qos1", 1, faults), tmp_path, testbed)
    assert row.judgement.broken == []
    assert row.injected == [planned.fault for planned in faults]
    assert row.acknowledged == row.judgement.counts["due"] > 0
    assert row.acknowledged_lost == {}
