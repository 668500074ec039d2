"""One run from its first check to its report: opens the parts, waits, drains, accounts, closes in reverse."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateways.protocols import PROTOCOLS
from ivsim import results
from ivsim.child_configs import scenario_of
from ivsim.clock import ClockWatch
from ivsim.display import Display
from ivsim.feed import Feed
from ivsim.interrupt import Interrupted, interruptible
from ivsim.options import RunOptions, fixed_rtt_ms, load_traces
from ivsim.parts import Parts, note_environment, open_parts
from ivsim.preflight import preflight
from ivsim.run_directory import RunDirectory, make_run_directory, new_run_id
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from simulator.fleet import schedule
from simulator.links import LinkError
from simulator.links.privileges import ensure_privileges
from simulator.links.prober import Prober
from simulator.links.replay import LinkReplay
from simulator.road import Road, Texture
from simulator.traces import BUNDLED, bundled

EXIT_FAILED = 1
START_AFTER_NS = 1_000_000_000
TICK_S = 0.25
BROKEN = (ProcessDied, NotReady, LinkError)


@dataclass
class Outcome:
    """What a run came to: its exit code, its figures, and what went wrong, if anything did."""

    exit_code: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    report: Path | None = None
    twin_distinct: int = 0
    error: str | None = None


def execute(
    options: RunOptions, output: Path | None, *, quiet: bool, disturb: Disturb | None = None
) -> Outcome:
    """Run the testbed once; Refusal before anything is started when it cannot.

    `disturb` is called several times a second while messages are due or on their way.
    """
    preflight(options)
    ensure_privileges()
    run = new_run_id(options)
    directory = make_run_directory(output, run)
    with Display(quiet=quiet) as display, interruptible():
        return Run(options, directory, run, display, disturb).execute()


def road_of(options: RunOptions) -> Road:
    """Return what the link is asked, second by second."""
    rtt = bundled(options.rtt) if options.rtt in BUNDLED else fixed_rtt_ms(options)
    trace, *others = load_traces(options)
    return Road(
        trace=trace,
        others=others,
        vehicles=options.vehicles,
        seed=options.seed,
        rtt=rtt,
        loss_ratio=options.loss_ratio,
        uplink_loss=options.loss_direction != "downlink",
        downlink_loss=options.loss_direction != "uplink",
        offsets=options.trace_offsets,
        outages=options.outage,
        rate_factor=options.rate_factor,
        egress_only=options.shaping == "cloud_egress",
        blackouts=options.faults.link,
        texture=Texture(
            options.jitter_ms,
            options.jitter_distribution if options.jitter_ms else "uniform",
            options.loss_burst,
            options.reorder_ratio,
            options.duplicate_ratio,
            options.queue_bytes,
        ),
    )


Disturb = Callable[["Run", Parts, Feed], None]


class Run:
    """The phases of one run; `_stop` holds why it ended early, if it did."""

    def __init__(
        self,
        options: RunOptions,
        directory: RunDirectory,
        run: str,
        display: Display,
        disturb: Disturb | None = None,
    ) -> None:
        self.disturb = disturb
        self.options, self.directory, self.run, self.display = options, directory, run, display
        self.start_at_ns: int | None = None
        self.stop_at_ns: int | None = None
        self.clock = ClockWatch.start()
        self.began_s = time.monotonic()
        self.timings: dict[str, float] = {}
        self.replay: LinkReplay | None = None
        self.prober: Prober | None = None
        self.feed: Feed | None = None
        self.road = road_of(options)
        self.drained = False
        self.link_name = ""

    def execute(self) -> Outcome:
        outcome = Outcome()
        with ExitStack() as stack:
            record = stack.enter_context(RunRecord(self.run, self.directory.work))
            stack.callback(results.remove_work, self.directory)
            note_environment(record)
            parts = Parts(self.options, self.directory, record, stack)
            try:
                self._go(parts)
            except BROKEN as error:
                outcome.exit_code, outcome.error = EXIT_FAILED, str(error)
            except Interrupted as signal:
                outcome.exit_code, outcome.error = 128 + signal.number, f"stopped by {signal}"
            except Refusal:
                results.discard(self.directory)
                raise
            self._account(parts, outcome)
        return outcome

    def _go(self, parts: Parts) -> None:
        open_parts(parts, self.display)
        self.start_at_ns = time.time_ns() + START_AFTER_NS
        self.timings["command_to_first_message_s"] = time.monotonic() - self.began_s + START_AFTER_NS / 1e9
        results.write_manifest(self, parts)
        assert parts.link is not None
        self.link_name = parts.link.name
        assert parts.pacer is not None
        assert parts.capture is not None
        self.replay = parts.stack.enter_context(LinkReplay(parts.link, self.road.at, self.start_at_ns))
        self.prober = parts.stack.enter_context(Prober(parts.link, self.options.vehicles, self.start_at_ns))
        self.feed = feed = parts.stack.enter_context(Feed(parts, self.start_at_ns))
        parts.capture.send("start", at_ns=self.start_at_ns)
        parts.pacer.send("start", at_ns=self.start_at_ns)
        self._wait(parts, feed)
        self._drain(parts, feed)

    def _wait(self, parts: Parts, feed: Feed) -> None:
        """Stay until the last message was due."""
        assert self.start_at_ns is not None
        self.display.phase("running")
        end_ns = self.start_at_ns + round(self.options.duration_s * 1e9)
        while (left_s := (end_ns - time.time_ns()) / 1e9) > 0:
            self._tick(parts, feed, left_s)
            time.sleep(min(TICK_S, max(left_s, 0.0)))

    def _drain(self, parts: Parts, feed: Feed) -> None:
        """Stay until every message has arrived, or the loss time-out of the last one is over."""
        self.display.phase("draining")
        deadline_s = time.monotonic() + self.options.loss_timeout_s
        due = sum(1 for _ in schedule(scenario_of(self.options)))
        while (left_s := deadline_s - time.monotonic()) > 0 and not self.drained:
            self._tick(parts, feed, left_s)
            time.sleep(TICK_S)
            self.drained = self._arrived(parts, feed, due)
        self.stop_at_ns = time.time_ns()

    def window_stop_at_ns(self) -> int | None:
        """Return when the run stopped, for the measurement window; None cuts nothing off its end.

        A run that drained has nothing left to wait for: each message had its chance.
        """
        return None if self.drained else self.stop_at_ns

    def _arrived(self, parts: Parts, feed: Feed, due: int) -> bool:
        """Say whether nothing is on its way any more: every message due is at its end, or was never sent."""
        totals = feed.totals()
        gone = totals.get("unsent", 0)
        mode = PROTOCOLS[self.options.protocol].modes[self.options.mode]
        if mode.acknowledged and totals.get("acknowledged", 0) + totals.get("refused", 0) + gone < due:
            return False
        at_end = totals.get("received", 0) if parts.watch is None else parts.watch.contained()
        return at_end + gone >= due

    def _tick(self, parts: Parts, feed: Feed, left_s: float) -> None:
        if self.disturb is not None:
            self.disturb(self, parts, feed)
        parts.check()
        for thread in (self.replay, self.prober):
            if thread is not None and thread.failure is not None:
                raise LinkError(f"{thread.name}: {thread.failure}")
        total_s = self.options.duration_s + self.options.loss_timeout_s
        self.display.progress(max(0.0, 1 - left_s / total_s), left_s, feed.row())

    def _account(self, parts: Parts, outcome: Outcome) -> None:
        """Stop the sources, write ledger and report of what there is, however the run ended."""
        if self.start_at_ns is None:
            results.discard(self.directory)
            return
        self.stop_at_ns = self.stop_at_ns or time.time_ns()
        drained_s = time.monotonic()
        try:
            results.account(self, parts, outcome)
        except BROKEN as error:
            outcome.exit_code = EXIT_FAILED
            outcome.error = f"{outcome.error + '; ' if outcome.error else ''}{error}"
        self.timings["drain_to_report_s"] = time.monotonic() - drained_s
        results.note_timings(self)
        if parts.watch is not None:
            outcome.twin_distinct = parts.watch.contained()
