"""A machine that stands still is noted beside what it broke, and excuses that alone; shown by sessions of toy tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import second_try
from tests.machine_notes import Meanwhile, meanwhile
from tests.machine_watch import NEVER, Failure, excused

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
[pytest]
addopts = --strict-markers --import-mode=importlib -p tests.machine_watch -p xdist -p no:cacheprovider
filterwarnings = error
markers =
    timing
    broker
"""
# As if the machine stood still: the watcher of the session is stopped. What truly runs beside this test is left out.
TOY = """
import os, signal, subprocess, time
from pathlib import Path
import psutil, pytest
import tests.machine_watch

tests.machine_watch.OTHERS_RATIO = 9.0
OWNER = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()

def stand_still(seconds):
    (watcher,) = [one for one in psutil.Process(OWNER).children() if "machine_notes" in " ".join(one.cmdline())]
    watcher.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    watcher.send_signal(signal.SIGCONT)

def first_time(name):
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
"""
STALLED_ONCE = """
@pytest.mark.timing
def test_a_moment():
    if first_time("tried"):
        stand_still(0.2)
        delay_ms = 200
        assert delay_ms < 100
"""


def toy(directory: Path, tests: str, *words: str) -> int:
    """Run toy tests with a record of first tries; return what pytest ended with."""
    (directory / "pytest.ini").write_text(SETTINGS)
    (directory / "test_toy.py").write_text(TOY + tests)
    return started(directory, "pytest", "-q", *words, IVSIM_FIRST_TRIES="tries.jsonl").returncode


def started(directory: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    plain = {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = os.environ | plain | more
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    (directory / "said").write_text(done.stdout + done.stderr)
    return done


def tried_again(directory: Path, *statuses: int) -> tuple[int, str]:
    done = started(directory, "tests.second_try", "tries.jsonl", *map(str, statuses))
    return done.returncode, done.stdout + done.stderr


def failures(directory: Path) -> dict[str, dict[str, Any]]:
    notes = [json.loads(line) for line in (directory / "tries.jsonl").read_text().splitlines()]
    return {note["failed"].rpartition("::")[2]: note for note in notes if "failed" in note}


@pytest.mark.slow
def test_a_stall_excuses_a_moment_that_is_kept_the_second_time(tmp_path):
    assert toy(tmp_path, STALLED_ONCE) == 1
    said = (tmp_path / "said").read_text()
    assert "what the machine did meanwhile" in said
    assert "times for 20 ms or more" in said
    (found,) = failures(tmp_path).values()
    assert found["largest_gap_ms"] >= 190
    assert (found["may"], found["markers"]) == (True, ["timing"])
    status, said = tried_again(tmp_path, 1)
    assert status == 0, said
    assert (
        said.index("1 passed")
        < said.index("DISTURBED")
        < said.index("test_a_moment: the machine stood still for")
    )
    assert said.endswith("second try: passed\n")
    assert tried_again(tmp_path, 0, 1)[0] == 1
    assert list(tmp_path.glob("ivsim-*")) == []
    assert [
        one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in (one.info["cmdline"] or ())
    ] == []


@pytest.mark.full
def test_two_workers_share_one_watcher(tmp_path):
    # Markers are strict, and a group's is xdist's own: the second try has no workers, but has to know it.
    tests = (
        '\npytestmark = pytest.mark.xdist_group("one")\n' + STALLED_ONCE + "\ndef test_other():\n    pass\n"
    )
    assert toy(tmp_path, tests, "-n", "2", "--dist", "loadgroup") == 1
    (found,) = failures(tmp_path).values()
    assert found["may"], found
    status, said = tried_again(tmp_path, 1)
    assert (status, "second try: passed" in said) == (0, True), said
    assert list(tmp_path.glob("ivsim-*")) == []


@pytest.mark.full
def test_a_second_try_that_fails_or_skips_excuses_nothing(tmp_path):
    always = STALLED_ONCE.replace('first_time("tried")', "True")
    assert toy(tmp_path, always) == 1
    assert failures(tmp_path)["test_a_moment"]["may"]
    status, said = tried_again(tmp_path, 1)
    assert (status, "second try: FAILED" in said) == (1, True), said
    # What it ran of its own is no part of the record.
    assert len((tmp_path / "tries.jsonl").read_text().splitlines()) == 3
    skipping = STALLED_ONCE + "    else:\n        pytest.skip('not again')\n"
    (tmp_path / "test_toy.py").write_text(TOY + skipping)
    (tmp_path / "tried").touch()
    assert tried_again(tmp_path, 1)[0] == 1


@pytest.mark.slow
def test_what_is_not_about_time_or_had_no_stall_stands(tmp_path):
    tests = """
        @pytest.mark.timing
        def test_nothing_happened(monkeypatch):
            monkeypatch.setattr(tests.machine_watch, "STALL_MS", 1e9)  # whatever truly happens meanwhile
            assert 200 < 100

        @pytest.mark.timing
        def test_account():
            stand_still(0.2)
            lost = 1
            assert lost == 0

        @pytest.mark.timing
        def test_all_arrive():
            stand_still(0.2)
            assert len([1]) == 2

        @pytest.mark.timing
        def test_by_its_own_mistake():
            stand_still(0.2)
            {}["absent"]

        @pytest.mark.broker
        def test_not_a_moment():
            stand_still(0.2)
            assert 3 == 4

        @pytest.mark.broker
        def test_limit():
            stand_still(0.2)
            raise TimeoutError

        @pytest.mark.broker
        def test_limit_of_a_helper():
            end_s = time.monotonic()
            stand_still(0.2)
            assert time.monotonic() < end_s

        @pytest.mark.broker
        @pytest.mark.timeout(2)
        def test_the_limit_of_the_test_itself():
            stand_still(1)
            time.sleep(60)

        @pytest.fixture
        def left():
            yield
            stand_still(0.2)
            raise TimeoutError

        @pytest.mark.broker
        def test_teardown(left):
            pass

        @pytest.fixture
        def begun():
            stand_still(0.2)
            raise TimeoutError

        @pytest.mark.broker
        def test_setup(begun):
            pass

        @pytest.mark.broker
        def test_several():
            stand_still(0.2)
            raise ExceptionGroup("both", [TimeoutError(), KeyError("absent")])

        @pytest.mark.broker
        @pytest.mark.xfail(strict=True)
        def test_passes_where_it_should_not():
            stand_still(0.2)

        def test_unmarked():
            raise TimeoutError
    """
    assert toy(tmp_path, textwrap.dedent(tests), "-p", "pytest_timeout") == 1
    found = failures(tmp_path)
    may = {"test_limit", "test_limit_of_a_helper", "test_the_limit_of_the_test_itself", "test_setup"}
    assert {name for name, note in found.items() if note["may"]} == may, found
    assert found["test_nothing_happened"]["why"].startswith("the machine stood still for")
    assert found["test_account"]["why"].startswith("speaks of 'lost'")
    assert found["test_all_arrive"]["why"].startswith("speaks of 'len('")
    assert found["test_by_its_own_mistake"]["why"] == "not about time (KeyError)"
    assert found["test_teardown"]["why"].startswith("failed in teardown")
    assert found["test_unmarked"]["why"].startswith("unmarked")
    status, said = tried_again(tmp_path, 1)
    assert (status, "DISTURBED" in said) == (1, False)
    assert "13 failed, and at most 3 are run once more" in said


@pytest.mark.full
@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_a_session_or_a_worker_that_died_is_never_excused(tmp_path, words):
    dying = STALLED_ONCE + "\n@pytest.mark.timing\ndef test_dies():\n    os._exit(1)\n"
    assert toy(tmp_path, dying, *words) == 1
    status, said = tried_again(tmp_path, 1)
    assert (status, "DISTURBED" in said) == (1, False)
    assert ("its worker died" if words else "broke off before its end") in said


@pytest.mark.full
def test_a_session_that_has_not_run_everything_is_never_excused(tmp_path):
    status = toy(tmp_path, STALLED_ONCE + "\ndef test_more():\n    pass\n", "-x")
    again, said = tried_again(tmp_path, status)
    assert (again, "DISTURBED" in said) == (1, False), said
    assert "ended with 1 stopping after 1 failures" in said


@pytest.mark.full
def test_sessions_without_marked_tests_watch_nothing(tmp_path):
    tests = "\ndef test_unmarked():\n    assert psutil.Process(OWNER).children() == []\n"
    assert toy(tmp_path, tests) == 0, (tmp_path / "said").read_text()
    assert tried_again(tmp_path, 0) == (0, "")


@pytest.mark.full
def test_the_watcher_ends_with_a_session_that_is_killed(tmp_path):
    killed = "\n@pytest.mark.broker\ndef test_killed():\n    os.kill(OWNER, signal.SIGKILL)\n"
    assert toy(tmp_path, killed) == -9
    gone = 0
    while list(tmp_path.glob("ivsim-machine-*")):
        gone += 1
        assert gone < 600, list(tmp_path.glob("ivsim-machine-*/*"))
        time.sleep(0.05)


def record(directory: Path, *notes: dict[str, Any], failed: int, status: int = 1) -> str:
    path = directory / "tries.jsonl"
    all_notes = [
        {"began": True, "words": ["toy"]},
        *notes,
        {"ended": True, "status": status, "stopped": "", "failed_count": failed, "passed_count": 0},
    ]
    path.write_text("".join(json.dumps({"session": "s", **note}) + "\n" for note in all_notes))
    return str(path)


def failed(name: str) -> dict[str, Any]:
    return {
        "failed": f"toy.py::{name}",
        "test": f"toy.py::{name}",
        "when": "call",
        "may": True,
        "why": "a stall",
    }


def test_four_failures_are_too_many(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(second_try, "passes", lambda _test: True)
    assert second_try.main([record(tmp_path, *map(failed, "abc"), failed=3), "1"]) == 0
    assert "DISTURBED" in capsys.readouterr().out
    assert second_try.main([record(tmp_path, *map(failed, "abcd"), failed=4), "1"]) == 1
    assert "4 failed, and at most 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failed_count", "status", "ended"),
    [(2, 1, [1]), (0, 1, [1]), (1, 0, [0]), (1, 1, [0]), (1, 1, [1, 1]), (1, 2, [2]), (1, 3, [3])],
)
def test_a_failure_that_is_not_in_the_record_is_not_forgotten(
    tmp_path, monkeypatch, failed_count, status, ended
):
    monkeypatch.setattr(second_try, "passes", lambda _test: True)
    path = record(tmp_path, failed("a"), failed=failed_count, status=status)
    assert second_try.main([path, *map(str, ended)]) == 1


def test_without_a_record_the_commands_decide(tmp_path, capsys):
    for path in ("", str(tmp_path / "none")):
        assert second_try.main([path, "0", "0"]) == 0
        assert second_try.main([path, "0", "1"]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text", ["the connection closed", "glossary", "accounted", "received_at_ns", "received_bps"]
)
def test_words_that_only_look_like_losses(text):
    assert NEVER.search(text) is None


@pytest.mark.parametrize(
    "text", ["KafkaLost", "link_loss_ratio", "loses", "two duplicates", "left over", "12 of 13"]
)
def test_words_of_losses(text):
    assert NEVER.search(text) is not None


def test_what_others_took_excuses_as_a_stall_does():
    moment, limit = Failure("delay_ms", "moment", "AssertionError"), Failure("", "limit", "TimeoutError")
    busy, idle = (Meanwhile(1.0, watched=True, others_ratio=ratio) for ratio in (0.3, 0.2))
    for failure in (moment, limit):
        assert excused("call", failure, busy, busy)[0]
        assert not excused("call", failure, idle, idle)[0]
        assert not excused("call", failure, replace(busy, watched=False), busy)[0]


def test_only_what_is_a_stall_adds_up_to_one():
    moment, limit = Failure("delay_ms", "moment", "AssertionError"), Failure("", "limit", "TimeoutError")
    for gaps_ms, is_stall in {(99.0,) * 9: False, (100.0,): True}.items():
        found = Meanwhile(1.0, watched=True, gaps_ms=gaps_ms)
        assert excused("call", moment, found, found)[0] == is_stall
        assert excused("call", limit, found, replace(found, seconds=0.3))[0] == is_stall
        # A stall in set-up is not why a limit behind it was broken.
        assert not excused("call", limit, found, replace(found, gaps_ms=()))[0]


def noted(directory: Path, *notes: dict[str, Any]) -> Path:
    path = directory / "notes"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes) + '{"at": 9')
    return path


def sampled(
    at: float, others_s: float, stolen_s: float = 0.0, pressure: float | None = None
) -> dict[str, Any]:
    return {
        "at": at,
        "others_s": others_s,
        "stolen_s": stolen_s,
        "busy_s": [at, 0.0],
        "pressure": pressure,
        "load": at,
    }


def test_notes_are_read_as_far_as_they_fall_between_the_moments(tmp_path):
    gaps = [{"gap": [0.2, 1.1]}, {"gap": [1.6, 1.9]}, {"gap": [1.99, 2.3]}]
    path = noted(
        tmp_path, sampled(0, 5.0), gaps[0], sampled(1, 5.0, pressure=40.0), *gaps[1:], sampled(3, 6.0, 0.4)
    )
    found = meanwhile(path, 1.0, 2.0)
    assert found.gaps_ms == pytest.approx((100, 300))
    assert (found.others_ratio, found.stolen_ratio) == pytest.approx((0.35, 0.1))
    assert found.busy_ratios == (1.0, 0.0)
    assert (found.pressure_percent, found.load) == (40.0, 3)


def test_notes_that_do_not_cover_it_all_prove_nothing(tmp_path):
    path = noted(tmp_path, sampled(1, 5.0), {"gap": [1.1, 1.9]}, sampled(2, 5.0))
    assert meanwhile(path, 1.0, 2.0, patience_s=0).watched
    assert not meanwhile(path, 0.9, 2.0, patience_s=0).watched
    assert not meanwhile(path, 1.0, 2.1, patience_s=0).watched
    assert not meanwhile(None, 1.0, 2.0).watched
    assert not meanwhile(tmp_path / "none", 1.0, 2.0).watched
