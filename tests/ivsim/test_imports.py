"""A signal that comes within an import waits for its end, and is heeded then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ivsim.imports import interrupt

ROOT = Path(__file__).resolve().parents[2]
# A module that is asked to stop in the middle of its import, and says when that came to its end.
INTERRUPTED_MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.{signal})
time.sleep(0.1)
print("imported whole", flush=True)
"""


def run_program(tmp_path: Path, program: str, name: str = "SIGINT") -> subprocess.CompletedProcess[str]:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED_MODULE.format(signal=name))
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )


# A wait that ends by itself: pause(2) does not see a signal that comes between the interpreter's last look and the call.
BY_COMMAND_LINE = """
import signal, time
from ivsim.imports import interrupt
signal.signal(signal.SIGINT, interrupt)
try:
    import interrupted
    for _ in range(1000): time.sleep(0.01)
except KeyboardInterrupt:
    print("heard")
"""
BY_RUN = """
import signal, time
from ivsim.runs.interrupt import Interrupted, interruptible
try:
    with interruptible():
        import interrupted
        for _ in range(1000): time.sleep(0.01)
except Interrupted as interrupted:
    print("heard", interrupted)
"""


@pytest.mark.parametrize(
    ("program", "name", "heard"),
    [
        (BY_COMMAND_LINE, "SIGINT", "heard"),
        (BY_RUN, "SIGINT", "heard SIGINT"),
        (BY_RUN, "SIGTERM", "heard SIGTERM"),
    ],
)
def test_the_import_ends_first(tmp_path: Path, program: str, name: str, heard: str) -> None:
    done = run_program(tmp_path, program, name)
    assert done.stdout.splitlines() == ["imported whole", heard]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_within_an_imported_script_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        BY_RUN.replace("import interrupted", "import os; os.kill(os.getpid(), signal.SIGINT)")
    )
    done = run_program(tmp_path, "import script")
    assert (done.stdout, done.returncode) == ("heard SIGINT\n", 0), done.stderr


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import sys; sys.argv = ['ivsim', '--version']\n"
        "from ivsim.cli import main\n"
        "try: main()\n"
        "finally: print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    assert run_program(tmp_path, program).stdout.splitlines()[-1] == "True"


def test_nothing_waits_outside_of_an_import() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    assert signal.getsignal(signal.SIGALRM) is before
