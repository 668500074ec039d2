"""A testbed that stays up: many runs, one after the other, on the same Kafka, Spark session, link and brokers."""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ivsim.options import RunOptions
from ivsim.runs import processes
from ivsim.runs.display import Display
from ivsim.runs.interrupt import EndingSignals, interruptible
from ivsim.runs.outcome import Outcome
from ivsim.runs.own_thread import OwnThread
from ivsim.runs.runner import Disturb, Run, make_plan, run_record
from ivsim.runs.shared_parts import SharedParts
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal


class Testbed:
    """Opens what runs have in common when the first of them wants it, and closes it when it is left.

    A part that has died is started again for the next run. Use it from the main thread, or from a thread that lives
    as long as it does: the kernel ends its processes together with the thread that has started them. A signal during a run ends
    that run; between runs SIGTERM and SIGHUP end the program as ever, and what the testbed has opened is closed first.

        with Testbed() as testbed:
            for seed in range(5):
                print(testbed.run(run_options(seed=seed)).metrics["delivery_ratio"])

    A run's files are the same as those of a run by itself, but for the logs of what is kept.

    Args:
        work: an existing directory for what is kept, such as Kafka's log; None takes the system's for temporary files.
    """

    __test__ = False  # pytest would take it for a class of tests

    def __init__(self, work: Path | None = None) -> None:
        self._base = work
        self._stack = ExitStack()
        self._work: Path | None = None
        self._shared: SharedParts | None = None
        self._running = threading.Lock()
        self._thread = OwnThread()
        self._signals = EndingSignals(self.close, self._stop_run)
        self.ended_at_ns: int | None = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        """Note the testbed; Refusal when it is open. Whoever calls this without `with` calls `close` in the end."""
        if self._shared is not None:
            raise Refusal("the testbed is open already")
        identity = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-testbed-{secrets.token_hex(3)}"
        with ExitStack() as stack:
            work = Path(tempfile.mkdtemp(prefix="ivsim-testbed-", dir=self._base))
            stack.callback(shutil.rmtree, work, ignore_errors=True)
            self._work = work
            record = stack.enter_context(RunRecord(identity, work))
            record.scratch(work)
            self._shared = stack.enter_context(SharedParts(record, keep=True))
            atexit.register(self.close)  # a notebook's kernel leaves no `with` block
            stack.callback(atexit.unregister, self.close)
            self._stack = stack.pop_all()
        self._signals.hold()
        return self

    def close(self) -> None:
        """Close everything that is open, in reverse; idempotent."""
        self._shared = None
        self._signals.closing()
        try:
            self._thread.call(self._stack.close)
            self._thread.close()
        finally:
            self._signals.release()

    def warm(self) -> None:
        """Start Kafka and Spark now rather than with the first run."""
        self._thread.call(_warm, self._open_parts())

    def run(
        self,
        options: RunOptions,
        output: Path | None = None,
        *,
        display: Display | None = None,
        disturb: Disturb | None = None,
    ) -> Outcome:
        """Run once and return what it came to, as `execute` does; the next call begins where this one ends.

        Refusal when the run cannot be made, another one is going on, or the testbed is closed.
        """
        shared = self._open_parts()
        if not self._running.acquire(blocking=False):
            raise Refusal("a run is going on in this testbed: runs follow each other")
        try:
            return self._thread.call(
                _run, shared, options, output, display or Display(quiet=True), self._thread.disturb(disturb)
            )
        finally:
            self.ended_at_ns = time.time_ns()
            self._running.release()

    def copy_logs(self, directory: Path) -> None:
        """Copy the logs of what is kept, as far as they go; they end with the testbed."""
        if self._work is not None and (logs := self._work / "logs").is_dir():
            shutil.copytree(logs, directory, dirs_exist_ok=True)

    def _stop_run(self) -> bool:
        """End the run that goes on, where the signal does not reach it by itself; False when there is none."""
        running = self._running.locked()
        if running:
            self._thread.stop()
        return running

    def _open_parts(self) -> SharedParts:
        if self._shared is None:
            raise Refusal("the testbed is not open: use `with Testbed() as testbed`, or call its `open`")
        return self._shared


def _warm(shared: SharedParts) -> None:
    with interruptible():
        shared.own_kafka()
        shared.twin.warm(processes.session_config(RunOptions()))
        shared.twin.wait_ready()


def _run(
    shared: SharedParts, options: RunOptions, output: Path | None, display: Display, disturb: Disturb
) -> Outcome:
    with interruptible(), display:
        plan = make_plan(options, output, shared.up())
        with run_record(plan) as record:
            outcome = Run(plan, record, shared, display, disturb).execute()
        if outcome.error is not None:
            shared.close_link()  # what has failed may be a part of it
    return outcome
