"""What each part of a run uses is that of its processes and of all that they have started."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ivsim.runs.counters import ROUTER, RUNNER, PartProcesses


def test_each_process_is_its_parts_and_the_machine_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    ppid_map = psutil._ppid_map

    def counted() -> dict[int, int]:
        looks.append(None)
        found: dict[int, int] = ppid_map()
        return found

    monkeypatch.setattr(psutil, "_ppid_map", counted)
    program = ["sh", "-c", "(sleep 60 & echo; wait) & wait"]
    with (
        subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as sender,
        subprocess.Popen(["sleep", "60"]) as router,
    ):
        try:
            assert sender.stdout is not None
            sender.stdout.readline()
            twin = SimpleNamespace(process=SimpleNamespace(pid=-1))
            children = [SimpleNamespace(pid=sender.pid, name="sender")]
            run: Any = SimpleNamespace(components=SimpleNamespace(children=children, servers={}, twin=twin))
            processes = PartProcesses()
            assert processes.cpu_s(run).keys() >= {RUNNER, "sender", ROUTER}
            assert len(looks) == 1
            found = {name: {one.pid for one in parts} for name, parts in processes.found().items()}
            below = {one.pid for one in psutil.Process(sender.pid).children(recursive=True)}
            assert found["sender"] == {sender.pid, *below}
            assert len(below) == 2
            assert router.pid in found[ROUTER]
            assert found[RUNNER] == {psutil.Process().pid}
        finally:
            for one in psutil.Process(sender.pid).children(recursive=True):
                one.kill()
            sender.kill()
            router.kill()
