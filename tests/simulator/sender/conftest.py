from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ivsim.testbed.child import Child
from ivsim.testbed.registry import RunRecord
from simulator.emission_table import to_table
from simulator.scenario import Scenario

READY_S = 40.0


class SenderRun:
    """One sender process and its log."""

    def __init__(self, child: Child, events_path: Path, scenario: dict[str, Any]) -> None:
        self.child = child
        self.events_path = events_path
        self.scenario = scenario
        self.start_at_ns = 0

    def start(self, in_s: float = 0.5) -> None:
        self.start_at_ns = time.time_ns() + round(in_s * 1e9)
        self.child.send("start", at_ns=self.start_at_ns)

    def rows(self) -> list[dict[str, Any]]:
        return to_table(self.events_path, Scenario(**self.scenario), self.start_at_ns).to_pylist()


@pytest.fixture
def start_sender(tmp_path: Path, run_record: RunRecord) -> Iterator[Callable[..., SenderRun]]:
    with ExitStack() as stack:

        def start(host: str, port: int, scenario: dict[str, Any], **config: Any) -> SenderRun:
            path, events_path = tmp_path / "sender.json", tmp_path / "emissions.events"
            values = {
                "scenario": scenario,
                "protocol": "mqtt",
                "mode": "qos1",
                "host": host,
                "port": port,
                "events_path": str(events_path),
                "client_prefix": run_record.run_id,
                "reconnect_first_s": 0.1,
                "reconnect_most_s": 0.5,
                **config,
            }
            path.write_text(json.dumps(values))
            child = stack.enter_context(Child("sender", ["simulator.sender", str(path)], run_record))
            child.wait_for("ready", READY_S)
            return SenderRun(child, events_path, scenario)

        yield start
