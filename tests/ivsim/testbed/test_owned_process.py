"""Processes that are ours to the end, and ports that are a server's before its start and between two."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

import pytest

from ivsim.testbed.process import OwnedProcess, ProcessDied, hold_port
from ivsim.testbed.registry import RunRecord


def test_a_held_port_is_for_a_server_that_may_share_it_and_for_nobody_else() -> None:
    with hold_port() as holder, socket.socket() as stranger, socket.socket() as server:
        address = holder.getsockname()
        with pytest.raises(OSError, match="in use"):
            stranger.bind(address)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()
        socket.create_connection(address).close()


def test_an_address_of_another_machine_leaves_no_socket_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="assign requested address") as kept:  # whose traceback has the socket
        hold_port("203.0.113.1")
    assert len(list(Path("/proc/self/fd").iterdir())) == before, kept


def test_a_leader_that_ended_leaves_nothing_of_its_group(run_record: RunRecord, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {pid_file}; exit 3"
    with OwnedProcess("leader", ["sh", "-c", script], run_record) as process:
        assert process.wait_end(10)
        left = int(pid_file.read_text())
        assert os.getpgid(left) == process.pid
        with os.fdopen(os.pidfd_open(left)) as end:
            assert not select.select([end], [], [], 0)[0]
            with pytest.raises(ProcessDied, match="exit code 3"):
                process.check()
            assert select.select([end], [], [], 10)[0]


def test_waiting_for_the_end_has_an_end_itself(run_record: RunRecord) -> None:
    with OwnedProcess("long", ["sleep", "600"], run_record) as process:
        assert not process.wait_end(0.1)
        assert process.running()
        process.kill()
        assert process.wait_end(0.0)


def test_the_id_of_an_ended_process_is_kept_until_its_group_is_ended(run_record: RunRecord) -> None:
    with OwnedProcess("short", ["true"], run_record) as process:
        assert process.wait_end(10)
        assert Path(f"/proc/{process.pid}").exists()
        assert process.stop() == 0
        assert not Path(f"/proc/{process.pid}").exists()


def test_what_was_reaped_is_never_signalled_again(
    run_record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OwnedProcess("short", ["true"], run_record) as process:
        process.popen.wait(10)
        sent: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append((pid, number)))
        monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
        process.kill()
        assert process.stop() == 0
        assert sent == []
