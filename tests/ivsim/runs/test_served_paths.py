"""A testbed that is up reads a run's files from where its client stands, and ends the run early where that asks for it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import EXIT_SIGNALLED, Outcome
from ivsim.runs.runner import StoppedEarly
from ivsim.runs.served import serve

DRIVES = Path(__file__).resolve().parents[3] / "examples/drives"


STOPPED = EXIT_SIGNALLED + signal.SIGTERM


class Asked:
    """In a testbed's place: takes note of what it is to run."""

    options: RunOptions

    def run(self, options: RunOptions, output: Path | None, **_: Any) -> Outcome:
        assert output is None
        self.options = options
        return Outcome(STOPPED, None)  # by a signal that ends the testbed too


def test_a_recorded_drive_is_found_from_the_clients_directory(tmp_path: Path) -> None:
    for end in ("csv", "toml"):
        shutil.copy(DRIVES / f"two-trucks.{end}", tmp_path / f"here.{end}")
    options = run_options(
        vehicle_log=str(tmp_path / "here.csv"), vehicle_mapping=str(tmp_path / "here.toml"), vehicles=2
    )
    said = {**options.model_dump(mode="json"), "vehicle_log": "here.csv", "vehicle_mapping": "here.toml"}
    asked = Asked()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        request = {"options": said, "output": None, "directory": str(tmp_path)}
        client.sendall(json.dumps(request).encode() + b"\n")
        with pytest.raises(Interrupted):
            serve(asked, server)
        answer = json.loads(client.makefile("r").readline())
    assert answer["done"]["exit_code"] == STOPPED, answer
    assert asked.options.vehicle_log == "here.csv"
    assert asked.options.drives is not None


class Going(Asked):
    """A run that has told how many messages were not sent."""

    ended = ""

    def run(self, options: RunOptions, output: Path | None, **named: Any) -> Outcome:
        going = SimpleNamespace(
            publisher=SimpleNamespace(totals=lambda: {"unsent": 6}),
            components=SimpleNamespace(live_reader=None),
            second=lambda: 3,
        )
        try:
            named["disturb"](going)
        except StoppedEarly as stopped:
            self.ended = str(stopped)
        return super().run(options, output)


@pytest.mark.parametrize(
    ("conditions", "ended"),
    [
        (["unsent > 5"], "--abort-on 'unsent > 5': it was 6 in second 3"),
        (["unsent > 6"], ""),
        ([], ""),
    ],
)
def test_a_condition_of_the_clients_ends_the_run_early(
    tmp_path: Path, conditions: list[str], ended: str
) -> None:
    going = Going()
    request = {"options": run_options().model_dump(mode="json"), "output": None, "directory": str(tmp_path)}
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(json.dumps({**request, "abort_on": conditions}).encode() + b"\n")
        with pytest.raises(Interrupted):
            serve(going, server)
    assert going.ended == ended
