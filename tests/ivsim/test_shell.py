"""`ivsim shell`: which run it means, and what it does where a vehicle lives."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ivsim import cli
from ivsim.testbed.live_runs import live_runs
from ivsim.testbed.registry import RunRecord
from simulator.links import LINKS

Shell = Callable[..., tuple[Any, str, str]]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    def call(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["ivsim", "shell", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capfd.readouterr()

    return call


def opened(path: Path, name: str, vehicles: int, **options: Any) -> RunRecord:
    work = path / name / "work"
    work.mkdir(parents=True)
    (path / name / "manifest.json").write_text(json.dumps({"options": {"vehicles": vehicles, **options}}))
    record = RunRecord(name, work)
    record.namespace(f"ivsim-{name}-v")
    record.namespace(f"ivsim-{name}-c")
    return record


@pytest.mark.parametrize("vehicle", ["0", "65001", "x", "-1", "YV2RT40A8KB00000x", "", "٣"])
def test_what_is_no_vehicle_is_refused(shell: Shell, vehicle: str) -> None:
    code, _, err = shell("--", vehicle)
    assert code == 2
    assert err.startswith(
        f"ivsim: vehicle {vehicle!r}: expected a number of 1 to 65,000, or an id such as YV2RT40A8KB000001"
    )


def test_a_run_has_to_be_open_and_one_has_to_be_meant(shell: Shell, tmp_path: Path) -> None:
    assert "no run is open here" in shell("1")[2]
    with opened(tmp_path, "one", 5):
        assert shell("6")[::2] == (2, "ivsim: vehicle 6: one has 5 vehicles\n")
        with opened(tmp_path, "two", 5):
            assert shell("1")[::2] == (2, "ivsim: several runs are open: --run with one of one, two\n")
            assert shell("1", "--run", "six")[::2] == (2, "ivsim: --run 'six': open are one, two\n")
    assert live_runs() == []


def test_a_vehicle_behind_a_gateway_at_the_edge_has_no_link(shell: Shell, tmp_path: Path) -> None:
    with opened(tmp_path, "one", 5, topology="edge"):
        said = "ivsim: vehicle 2: one has no link of a vehicle's: its links are its gateways'\n"
        assert shell("2")[::2] == (2, said)


def test_notes_of_a_dead_run_are_no_open_run(state: Path) -> None:
    state.mkdir()
    line = {"kind": "run", "owner": "1:1", "boot": "another", "directory": "/nowhere"}
    (state / "dead.jsonl").write_text(json.dumps(line) + "\n")
    (state / "half.jsonl").write_text('{"kind": "ru')
    (state / "empty.jsonl").write_text("")
    assert live_runs() == []


@pytest.mark.netns
def test_what_is_sent_from_a_vehicles_shell_comes_from_that_vehicle(shell: Shell, tmp_path: Path) -> None:
    name = f"t{uuid.uuid4().hex[:7]}"
    with LINKS["direct"](name, 5), opened(tmp_path, name, 5):
        code, out, err = shell(
            "YV2RT40A8KB000003", "--", "sh", "-c", "echo $VEHICLE $VEHICLE_ADDRESS $CLOUD_ADDRESS"
        )
        assert (code, out, err) == (0, "YV2RT40A8KB000003 198.18.0.3 198.19.0.1\n", "")
        script = (
            "import os, socket; s = socket.create_server((os.environ['VEHICLE_ADDRESS'], 0));"
            "print(s.getsockname()[0], sorted(name for _, name in socket.if_nameindex()))"
        )
        assert shell("3", "--", sys.executable, "-c", script)[1] == "198.18.0.3 ['lo', 'veh0']\n"
        assert shell("3", "--", "sh", "-c", "exit 7")[0] == 7
        assert shell("3", "--", "no-such-program")[::2] == (2, "ivsim: no-such-program: no such program\n")
