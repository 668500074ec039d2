"""A part that dies names its cause in the first line that is said of it, wherever and however it has written it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from ivsim.runs.ledger_job import why
from ivsim.testbed.child import Child
from ivsim.testbed.process import NotReady, OwnedProcess, ProcessDied
from ivsim.testbed.registry import RunRecord

LOST = "java.lang.VirtualMachineError: Out of space in CodeCache for adapters"
WAYS = {
    "on standard error": ("print('disk full: /x', file=sys.stderr)", "disk full: /x"),
    "on standard output": ("print('disk full: /x')", "disk full: /x"),
    "at the top of a trace that is longer than what is shown": (
        f"print({LOST!r} + '\\n\\tat a.b.C.d(E.java:1)' * 2000, file=sys.stderr)",
        LOST,
    ),
    "as the innermost of Java's causes": (
        (
            "print('java.lang.RuntimeException: outer' + '\\n\\tat a.b.C.d(E.java:1)' * 300"
            " + '\\nCaused by: java.io.IOException: no quota' + '\\n\\tat a.b.C.d(E.java:1)' * 300, file=sys.stderr)"
        ),
        "java.io.IOException: no quota",
    ),
}


def server(run_record: RunRecord, program: str) -> OwnedProcess:
    return OwnedProcess("server", [sys.executable, "-c", f"import sys, os\n{program}"], run_record)


def death_of(process: OwnedProcess) -> ProcessDied:
    with process:
        assert process.wait_end(20)
        with pytest.raises(ProcessDied) as died:
            process.check()
    return died.value


@pytest.mark.parametrize("way", WAYS)
def test_a_server_names_its_cause(run_record: RunRecord, way: str) -> None:
    program, cause = WAYS[way]
    death = death_of(server(run_record, f"{program}\nsys.exit(1)"))
    assert str(death).splitlines()[0] == death.line == f"server ended with exit code 1: {cause}"
    assert str(death).count("\tat ") <= 2


@pytest.mark.parametrize("way", WAYS)
def test_a_child_names_its_cause(run_record: RunRecord, tmp_path: Path, way: str) -> None:
    program, cause = WAYS[way]
    (tmp_path / "dying_child.py").write_text(f"import sys\n{program}\nsys.exit(1)\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    started = Child("twin", ["dying_child"], run_record, environment={"PYTHONPATH": path})
    with started as child, pytest.raises(ProcessDied) as died:
        child.wait_for("ready", 20)
    assert str(died.value).splitlines()[0] == why(died.value) == f"twin ended with exit code 1: {cause}"


def test_an_exception_of_python_is_shown_with_its_place(run_record: RunRecord) -> None:
    death = death_of(server(run_record, "def deep():\n    raise KeyError(7)\ndeep()"))
    first, second, *others = str(death).splitlines()
    assert first == "server ended with exit code 1: KeyError: 7"
    assert second == f"last lines of its log, {run_record.directory / 'logs' / 'server.log'}:"
    assert any("in deep" in line for line in others)


def test_one_that_says_nothing_is_said_to_and_its_log_is_named(run_record: RunRecord) -> None:
    log = run_record.directory / "logs" / "server.log"
    death = death_of(server(run_record, "sys.exit(3)"))
    assert str(death) == f"server ended with exit code 3; it wrote nothing to its log, {log}"


def test_a_log_is_named_where_it_is_once_the_run_is_over(tmp_path: Path) -> None:
    with RunRecord("kept", tmp_path / "work", tmp_path / "logs") as record:
        assert str(death_of(server(record, "sys.exit(3)"))).endswith(f", {tmp_path}/logs/server.log")


def test_a_signal_is_named_and_no_cause_is_made_up(run_record: RunRecord) -> None:
    program = f"print({LOST!r}, flush=True); os.kill(os.getpid(), {int(signal.SIGKILL)})"
    first, *others = str(death_of(server(run_record, program))).splitlines()
    assert first == "server was ended by SIGKILL"
    assert others[-1] == LOST


def test_a_crash_says_its_signal_and_what_was_written(run_record: RunRecord) -> None:
    program = "print('#  SIGSEGV (0xb) at pc=0x7f, pid=1, tid=2', flush=True); os.abort()"
    death = death_of(server(run_record, program))
    assert death.line == "server was ended by SIGABRT: SIGSEGV (0xb) at pc=0x7f, pid=1, tid=2"


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (137, "ended with exit code 137 (SIGKILL)"),
        (143, "ended with exit code 143 (SIGTERM)"),
        (255, "ended with exit code 255"),
        (-40, "was ended by signal 40"),
    ],
)
def test_a_signal_behind_an_exit_code_is_named(code: int, ending: str) -> None:
    assert str(ProcessDied("kafka", code, None)) == f"kafka {ending}"


def test_what_an_earlier_one_of_its_name_wrote_is_not_its_cause(run_record: RunRecord) -> None:
    death_of(server(run_record, f"print({LOST!r}); sys.exit(1)"))
    assert "it wrote nothing" in str(death_of(server(run_record, "sys.exit(1)")))


def test_one_that_does_not_answer_says_what_it_said_last(run_record: RunRecord) -> None:
    program = "print('12:00:00 ERROR x: port 7 is taken', flush=True)\nimport time\ntime.sleep(600)"
    with server(run_record, program) as process, pytest.raises(NotReady) as late:
        process.wait_ready(lambda: False, 2.0)
    first = str(late.value).splitlines()[0]
    assert first == "server was not ready after 2 s; it said last: 12:00:00 ERROR x: port 7 is taken"
