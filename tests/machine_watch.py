"""A pytest plugin: what the machine did while a marked test failed, printed with it, and the record of first tries.

One process watches for the whole session (tests/machine_notes.py), and only where a marked test is selected. Where
IVSIM_FIRST_TRIES names a file, every session is noted there with its failures, and of each failure whether the machine
may be its cause; tests/second_try.py decides what follows. This plugin itself runs nothing again and changes no verdict.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import machine_notes
from tests.machine_notes import Meanwhile, meanwhile

VARIABLE = "IVSIM_FIRST_TRIES"
MARKERS = ("broker", "kafka", "netns", "spark", "browser", "slow", "timing", "full")
# The replay's own check calls a change of second late from 100 ms on. Beside servers of our own, on two full processors
# with a load of 9, the sleeper's gaps stay below that.
STALL_MS = 100.0
# What others took of all processors (half of one, of two), and what a limit's own seconds must have lost: limits leave
# room, and a machine that stood still for less of the time is not why one was broken.
OTHERS_RATIO = LIMIT_RATIO = 0.25

# In the names, the lines and the messages of a failure: it may be about what became of messages, or what stayed behind.
NEVER = re.compile(
    r"(?<![cgfbp])(?:lost|loss|lose|losing)|duplicat|twice|ledger|left[ _]?over|left behind|missing|unaccounted|orphan"
    r"|\blen\(|(?<![a-z])count|drops?\b|(?:packets|received|consumed|produced|delivered|acknowledged)\b|\d of \d",
    re.IGNORECASE,
)
# Lines by which pytest explains the parts of an assertion: whole objects, with fields that it does not speak of.
EXPLAINED = re.compile(r"^ *\+ +(?:where|and) .*$", re.MULTILINE)
CLOCK_READ = re.compile(r"\b(?:monotonic|perf_counter|time)(?:_ns)?\(\)")
NOT_WITHIN = re.compile(r"\bnot (?:\w+ )?(?:with)?in [\d.]+ s\b|^Timeout \(>?[\d.]+s\) from pytest-timeout")


class Failure(NamedTuple):
    """Of what a failure speaks, and what it is: of a "limit", of a "moment" that was judged, or of neither (None)."""

    text: str
    about: str | None
    name: str


def failure_of(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException] | None) -> Failure:
    """Return what is known of a failure; one without an exception is about nothing that could be excused."""
    if excinfo is None:
        return Failure(item.name, None, "no exception")
    near = (Path(__file__).parent, item.path)
    lines = [
        _statement(one) for one in excinfo.traceback if any(Path(one.path).is_relative_to(n) for n in near)
    ]
    every = list(_with_causes(excinfo.value, set()))
    text = "\n".join([item.name, *lines, *(EXPLAINED.sub("", said) for one in every for said in _said(one))])
    timed = item.get_closest_marker("timing") is not None
    last = _statement(excinfo.traceback[-1]) if excinfo.traceback else ""
    found = {_about(one, last, timed) for one in _leaves(excinfo.value)}
    about = None if None in found else "limit" if "limit" in found else "moment"
    return Failure(text, about, excinfo.typename)


def _about(error: BaseException, line: str, timed: bool) -> str | None:
    if any("Timeout" in kind.__name__ for kind in type(error).__mro__):
        return "limit"
    if not isinstance(error, (AssertionError, pytest.fail.Exception)):
        return None
    if CLOCK_READ.search(line) or NOT_WITHIN.search(str(error)):
        return "limit"
    return "moment" if timed else None


def _statement(entry: Any) -> str:
    try:
        return str(entry.statement)
    except (OSError, SyntaxError, IndexError):
        return ""


def _said(error: BaseException) -> list[str]:
    return [str(error), *getattr(error, "__notes__", ())]


def _leaves(error: BaseException) -> list[BaseException]:
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [leaf for one in inner for leaf in _leaves(one)] or [error]


def _with_causes(error: BaseException | None, met: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in met:
        return
    met.add(id(error))
    yield error
    for one in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        yield from _with_causes(one, met)


def excused(when: str, failure: Failure, found: Meanwhile, phase: Meanwhile) -> tuple[bool, str]:
    """Return whether a marked test that failed so may be run once more, and why, or why not.

    `found` is from the beginning of its set-up on; `phase` is the part that failed, in which a limit has run.
    """
    never = {
        "failed in teardown: what stays behind is never excused": when == "teardown",
        "what became of messages, and what stayed behind, is never excused": NEVER.search(failure.text),
        f"not about time ({failure.name})": failure.about is None,
        "nobody watched the machine": not found.watched,
    }
    for reason, met in never.items():
        if met:
            return False, f"speaks of {met[0]!r}: {reason}" if isinstance(met, re.Match) else reason
    if found.others_ratio >= OTHERS_RATIO:
        return True, f"others took {found.others_ratio:.0%} of the processors"
    if failure.about == "moment":
        return found.largest_ms >= STALL_MS, f"the machine stood still for {found.largest_ms:.0f} ms at most"
    share = sum(gap_ms for gap_ms in phase.gaps_ms if gap_ms >= STALL_MS) / 1e3 / phase.seconds
    return share >= LIMIT_RATIO, f"stalls took {share:.0%} of the {phase.seconds:.1f} s in which it failed"


class MachineWatch:
    """The plugin of one process: the session's own, which watches and records, or one of its workers."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", None)
        self._worker = given is not None
        # A session that a test starts is a part of that test, and no try of ours.
        record = os.environ.pop(VARIABLE, "")
        self._record = Path(record) if record and not self._worker else None
        self._directory: Path | None = Path(given["machine_watch"]) if given is not None else None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._begin_s = 0.0
        self._passed = 0
        self._id = uuid.uuid4().hex
        self._note(began=self._id, words=list(map(str, config.invocation_params.args)))

    def _note(self, **said: Any) -> None:
        if self._record is not None:
            with self._record.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"session": self._id, **said}) + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["machine_watch"] = str(self._made_directory())

    def _made_directory(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ivsim-machine-"))
        return self._directory

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if any(one.get_closest_marker(name) for one in session.items for name in MARKERS):
            if self._worker:
                (self._made_directory() / "wanted").touch()
            else:
                self._watch()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Watch where a worker has said that it will need it: no worker runs a test before all have collected."""
        if (self._made_directory() / "wanted").exists():
            self._watch()

    def _watch(self) -> None:
        if self._watcher is not None:
            return
        notes = self._made_directory() / "notes"
        # -I, -S: no part of the environment's packages; nor is it a process of a run, whatever started this session.
        words = [sys.executable, "-I", "-S", machine_notes.__file__, str(notes), str(os.getpid())]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("IVSIM_")}
        self._watcher = subprocess.Popen(words, env=plain, stdin=subprocess.DEVNULL, start_new_session=True)
        end_s = time.monotonic() + machine_notes.PATIENCE_S
        while self._watcher.poll() is None and time.monotonic() < end_s:
            if notes.exists() and notes.stat().st_size > 0:
                break
            time.sleep(0.005)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._begin_s = time.monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        end_s = time.monotonic()
        report = yield
        marks = [name for name in MARKERS if item.get_closest_marker(name)]
        if report.failed and marks:
            notes = self._directory / "notes" if self._directory is not None else None
            found = meanwhile(notes, self._begin_s, end_s)
            phase = meanwhile(notes, end_s - max(call.duration, 1e-3), end_s)
            may, why = excused(call.when, failure_of(item, call.excinfo), found, phase)
            report.sections.append(("what the machine did meanwhile", found.text()))
            report.first_try = {  # type: ignore[attr-defined]  # a worker's report carries it to the session
                "markers": marks,
                "begin_s": self._begin_s,
                "end_s": end_s,
                "largest_gap_ms": found.largest_ms,
                "stalled_ms": found.stalled_ms,
                "others_ratio": found.others_ratio,
                "may": may,
                "why": why,
            }
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not hasattr(report, "wasxfail"):
            unmarked = {"may": False, "why": "unmarked, or its worker died"}
            self._note(failed=str(report.nodeid), when=report.when, **getattr(report, "first_try", unmarked))
        self._passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(failed=str(report.nodeid), when="collect", may=False, why="could not be collected")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
        result = yield
        stopped = str(session.shouldfail or session.shouldstop or "")
        counts = {"failed_count": session.testsfailed, "passed_count": self._passed}
        self._note(ended=True, status=int(exitstatus), stopped=stopped, **counts)
        return result

    def close(self) -> None:
        """End the watcher and remove its notes."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
        if self._directory is not None and not self._worker:
            shutil.rmtree(self._directory, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    watch = MachineWatch(config)
    config.pluginmanager.register(watch, "machine-watch")
    config.add_cleanup(watch.close)
