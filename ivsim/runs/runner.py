"""One run from its first check to its report: opens the components, waits, drains, accounts, closes in reverse."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from gateways.protocols.base import Mode
from ivsim.options import RunOptions, load_traces, option_name, rtt_of
from ivsim.runs import accounting, manifest, processes
from ivsim.runs.checksums import write_checksums
from ivsim.runs.clock import ClockWatch
from ivsim.runs.components import Components, open_components
from ivsim.runs.directory import RunDirectory, make_run_directory, new_run_id, run_path
from ivsim.runs.disk import DiskNearlyFull, DiskWatch, check_room, ran_out
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted, heard, interruptible
from ivsim.runs.ledger_job import open_kafka_log
from ivsim.runs.live_figures import LiveFigures
from ivsim.runs.live_publisher import LivePublisher
from ivsim.runs.memory import check_memory, check_memory_with_link
from ivsim.runs.outcome import EXIT_FAILED, EXIT_SIGNALLED, EXIT_STOPPED_EARLY, Outcome
from ivsim.runs.plan import RunPlan
from ivsim.runs.platform_usage import PlatformUsage
from ivsim.runs.preflight import preflight
from ivsim.runs.scrape import Scrape
from ivsim.runs.shards import sender_shares
from ivsim.runs.shared_parts import SharedParts
from ivsim.runs.started import Ending, StartedRun
from ivsim.runs.stored_result import folder_of, put
from ivsim.runs.validity import EXIT_INVALID
from ivsim.runs.versions import environment
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from simulator.fleet import messages_due
from simulator.garbage import spared
from simulator.link_schedule import Impairments, LinkSchedule
from simulator.links import DIRECT, LinkError
from simulator.links.privileges import ensure_privileges

Disturb = Callable[[StartedRun], None]
# From the choice of second 0 until then: every part is told it, and each vehicle's link its first conditions.
START_AFTER_NS, START_AFTER_NS_PER_VEHICLE = 500_000_000, 100_000
TICK_S = 0.25
# What the sender may take to say that it has given up what it kept.
SETTLE_NS = 5_000_000_000
BROKEN = (ProcessDied, NotReady, LinkError, DiskNearlyFull)


class StoppedEarly(Exception):  # noqa: N818 - what happened
    """Raised by what disturbs a run, to end it before its time; it is accounted for up to there, and is partial."""


def execute(
    options: RunOptions,
    output: Path | None,
    *,
    quiet: bool,
    disturb: Disturb | None = None,
    display: Display | None = None,
) -> Outcome:
    """Run the testbed once; Refusal before anything is started when it cannot.

    `disturb` is called several times a second while messages are due or on their way. `display` says how it goes, one
    for people without it.
    """
    plan = make_plan(options, output)
    with (
        display or Display(quiet=quiet) as shown,
        interruptible(),
        run_record(plan) as record,
        SharedParts(record, keep=False) as shared,
    ):
        return Run(plan, record, shared, shown, disturb).execute()


def make_plan(options: RunOptions, output: Path | None, up: Collection[str] = ()) -> RunPlan:
    """Return a run with its directory made; Refusal, and nothing made, when it cannot be run here.

    `up` names the parts that a testbed has up already.
    """
    run_id = new_run_id(options)
    path = run_path(output, run_id, options.name)  # a name that is taken is refused first
    check_room(path, options)
    check_memory(options, up)
    preflight(options)
    ensure_privileges()
    check_memory_with_link(options, up)
    link_schedule = link_schedule_of(options)
    directory = make_run_directory(output, run_id, options.name)
    return RunPlan(run_id, options, directory, link_schedule, sender_shares(options), ClockWatch.start())


def link_schedule_of(options: RunOptions) -> LinkSchedule:
    """Return what the link is asked, second by second."""
    rtt = rtt_of(options)
    trace, *others = load_traces(options)
    return LinkSchedule(
        trace=trace,
        others=others,
        vehicles=len(options.links),
        first=options.links.start,
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
        impairments=Impairments(
            jitter_ms=options.jitter_ms,
            distribution=options.jitter_distribution if options.jitter_ms else "uniform",
            burst_packets=options.loss_burst,
            reorder_ratio=options.reorder_ratio,
            duplicate_ratio=options.duplicate_ratio,
            queue_bytes=options.queue_bytes,
        ),
    )


@contextmanager
def run_record(plan: RunPlan) -> Iterator[RunRecord]:
    """Note the run while it goes; its scratch is removed when everything in it is closed."""
    with RunRecord(plan.run_id, plan.directory.work, plan.directory.logs) as record:
        try:
            yield record
        finally:
            accounting.leave_directory(plan.directory)


class Run:
    """The phases of one run."""

    def __init__(
        self,
        plan: RunPlan,
        record: RunRecord,
        shared: SharedParts,
        display: Display,
        disturb: Disturb | None = None,
    ) -> None:
        self._plan, self._record, self._shared = plan, record, shared
        self._display, self._disturb = display, disturb
        self._began_s = time.monotonic()
        self._disk = DiskWatch((plan.directory.path,), plan.options)
        self._scrape: Scrape | None = None
        self._live: LiveFigures | None = None

    def execute(self) -> Outcome:
        """Open, run, account, close; the outcome says what went wrong."""
        plan = self._plan
        outcome = Outcome()
        started: StartedRun | None = None
        drained = False
        with ExitStack() as stack:
            try:
                self._scrape = self._open_scrape(stack)
                components = open_components(plan, self._record, stack, self._shared, self._display)
                logs = [server.log for server in components.kafka]
                self._disk = DiskWatch((plan.directory.path, *logs), plan.options)
                started = self._start(components, stack)
                self._wait(started)
                drained = self._drain(started)
            except (*BROKEN, OSError) as error:
                outcome.exit_code, outcome.error = EXIT_FAILED, self._why(error)
            except StoppedEarly as reason:
                outcome.exit_code, outcome.error = EXIT_STOPPED_EARLY, str(reason)
            except Interrupted as stop:
                outcome.exit_code, outcome.error = EXIT_SIGNALLED + stop.number, f"stopped by {stop}"
                self._display.note(self._what_follows(stop, started))
            except Refusal:
                accounting.never_started(plan.directory, logs=True)
                raise
            if started is None:
                # Of a run that broke, the logs of its processes say why; one that was stopped has nothing to say.
                accounting.never_started(plan.directory, logs=outcome.signal is None)
            else:
                stop_at_ns = None if drained else time.time_ns()
                outcome.directory = plan.directory.path
                self._account(started, Ending(stop_at_ns, time.monotonic(), outcome.error), outcome)
                if outcome.error is None:
                    self._display.ended()
        return outcome

    def _what_follows(self, stop: Interrupted, started: StartedRun | None) -> str:
        """Return what is done once a signal has come, how long that takes, and what a second one would do."""
        if started is None:
            return f"{stop}: closing what was opened; nothing was sent"
        usual_s = self._display.usual_s("accounting for every message", "writing the report")
        usually = "" if usual_s is None else f" (usually {max(usual_s, 1.0):.0f} s)"
        later = f". A second signal leaves that to `ivsim report {started.directory.path} --ledger`"
        return f"{stop}: no more is sent; accounting for what was{usually}{later if heard() else ''}"

    def _open_scrape(self, stack: ExitStack) -> Scrape | None:
        """Open the page for Prometheus, if it was asked for; Refusal for a port that is taken."""
        port = self._plan.options.metrics_port
        if port is None:
            return None
        scrape = stack.enter_context(Scrape(port, self._plan.run_id, self._plan.options))
        self._display.note(f"for Prometheus: {scrape.url}")
        return scrape

    def _start(self, components: Components, stack: ExitStack) -> StartedRun:
        """Let the link, its probes and the live figures begin, and tell the vehicles when second 0 is."""
        plan = self._plan
        facts = environment()  # asks Java for its version: not between the choice of the start and the start
        # A full collection made a change of the link 130 to 230 ms late.
        spare_new = stack.enter_context(spared())
        components.agents.compare()
        log = None
        if components.endpoints.kafka.bootstrap:
            log = stack.enter_context(closing(open_kafka_log(components, plan.directory, plan.options)))
        after_ns = START_AFTER_NS + plan.options.sending * START_AFTER_NS_PER_VEHICLE
        start_at_ns = self._start_at_ns(time.time_ns() + after_ns)
        opened_s = time.monotonic() - self._began_s + (start_at_ns - time.time_ns()) / 1e9
        # A link that emulates nothing has no conditions to show, whatever the trace says.
        shown = plan.options.page and components.link.name != DIRECT
        publisher = LivePublisher(
            plan.directory,
            plan.shards,
            components.endpoints.kafka,
            components.live_reader,
            start_at_ns,
            conditions=components.replay.in_force if shown else None,
            captured=components.capture is not None,
        )
        components.replay.start(components.link, start_at_ns)
        started = StartedRun(
            plan,
            components,
            start_at_ns,
            opened_s,
            stack.enter_context(publisher),
            log,
            spare_new,
            None if components.consumer is None else PlatformUsage(components.platform),
        )
        manifest.write_manifest(started, facts)
        if components.capture is not None:
            components.capture.send("start", at_ns=start_at_ns)
        self._start_at_ns(time.time_ns())  # refused here, too: manifest and replay have taken their time
        for name in components.senders:
            components.children.part(name).send("start", at_ns=start_at_ns)
        if log is not None:
            log.follow()
        return started

    def _start_at_ns(self, earliest_ns: int) -> int:
        """Return when second 0 begins: as soon as all is ready, or at its time; NotReady when that is over."""
        options = self._plan.options
        if options.start_at_ns is None:
            return earliest_ns
        late_s = (earliest_ns - options.start_at_ns) / 1e9
        if late_s > 0:
            raise NotReady(
                f"{option_name('start_at')} {options.start_at}: all was ready {late_s:.1f} s after it; nothing was sent"
            )
        return options.start_at_ns

    def _wait(self, started: StartedRun) -> None:
        """Stay until the last message was due."""
        self._display.phase("running")
        if started.options.start_at is not None:
            ahead_s = (started.start_at_ns - time.time_ns()) / 1e9
            self._display.note(f"all is ready: second 0 is at {started.options.start_at}, in {ahead_s:.0f} s")
        end_ns = started.start_at_ns + round(started.options.duration_s * 1e9)
        while (left_s := (end_ns - time.time_ns()) / 1e9) > 0:
            self._tick(started, max(0.0, 1 - left_s / started.options.duration_s), left_s)
            time.sleep(min(TICK_S, max(left_s, 0.0)))

    def _drain(self, started: StartedRun) -> bool:
        """Stay until every message has arrived, or the loss time-out of the last one is over; True for the first."""
        self._display.phase("draining")
        scenario = processes.scenario_of(started.options)
        due = [messages_due(scenario, share.vehicles) for share in started.plan.senders]
        while (left_s := (_drain_end_ns(started, due) - time.time_ns()) / 1e9) > 0:
            self._tick(started, 1.0, left_s)
            time.sleep(TICK_S)
            if arrived(started, due):
                return True
        return False

    def _tick(self, started: StartedRun, share: float, left_s: float) -> None:
        started.spare_new()
        self._disk.check()
        if self._scrape is not None:
            self._scrape(started)
        if self._disturb is not None:
            self._disturb(started)
        started.components.check()
        started.replay.check()
        self._live = self._live or LiveFigures(started)
        self._display.progress(share, left_s, *self._live.tell())

    def _account(self, started: StartedRun, ending: Ending, outcome: Outcome) -> None:
        """Stop the sources, write ledger and report of what there is, however the run ended."""
        try:
            result = accounting.account(started, ending, self._display, alone=not self._shared.keep)
            outcome.metrics, outcome.report = result.metrics, result.report
            if result.signal is not None:
                if outcome.signal is None:
                    outcome.exit_code = EXIT_SIGNALLED + result.signal
                outcome.error = kept_words(result, started.directory.path)
            elif result.error is not None:
                add_failure(outcome, self._disk.full() or result.error)
            elif outcome.exit_code == 0 and result.metrics["validity"]["verdict"] == "invalid":
                outcome.exit_code = EXIT_INVALID
        except (*BROKEN, OSError) as error:
            add_failure(outcome, self._why(error))
        timings = {
            "command_to_first_message_s": started.opened_s,
            "drain_to_report_s": time.monotonic() - ending.at_s,
        }
        try:
            manifest.note_timings(started.directory, timings)
            write_checksums(started.directory)
        except OSError as error:
            add_failure(outcome, self._why(error))
        else:
            self._store(started.directory, outcome)
        if (reader := started.components.live_reader) is not None:
            outcome.twin_distinct = reader.contained()
        elif (consumer := started.components.consumer) is not None:
            outcome.twin_distinct = int(consumer.latest.get("done", {}).get("distinct", 0))

    def _store(self, directory: RunDirectory, outcome: Outcome) -> None:
        """Put a share's result where those of all shares are to be; one without a ledger is of no use there."""
        folder = folder_of(self._plan.options)
        if folder is None or not directory.ledger.is_file():
            return
        here = f"the result is in {directory.path} alone"
        try:
            put(directory.path, folder, self._plan.options)
            self._display.note(f"the result is in {folder}, too")
        except Refusal as reason:
            add_failure(outcome, f"{reason}; {here}")
        except Interrupted as stop:
            add_failure(outcome, f"stopped by {stop}: {here}")
            outcome.exit_code = EXIT_SIGNALLED + stop.number

    def _why(self, error: Exception) -> str:
        """Return the line for what broke; an error of the system's that no full disk explains is raised again."""
        if isinstance(error, OSError) and not isinstance(error, BROKEN) and not ran_out(error):
            raise error
        return self._disk.full() or str(error)


def kept_words(result: accounting.Result, directory: Path) -> str:
    """Return what is kept of a run that a signal has stopped while it was accounted for."""
    name = signal.Signals(result.signal or 0).name
    if result.error is None:
        return f"stopped by {name} when all was accounted for: nothing is missing in {directory}"
    return (
        f"stopped by {name} while accounting: every log, table and record is kept in {directory}, and"
        f" `ivsim report {directory} --ledger` makes the ledger and its figures"
    )


def add_failure(outcome: Outcome, error: str) -> None:
    """Note that the accounting failed; a run that a signal has stopped goes by that, with or without a ledger."""
    if outcome.signal is None:
        outcome.exit_code = EXIT_FAILED
    if error != outcome.error:  # a full disk breaks one thing after another
        outcome.error = f"{outcome.error}; {error}" if outcome.error else error


def _drain_end_ns(started: StartedRun, due: Sequence[int]) -> int:
    options = started.options
    settled = all(
        totals.get("emitted", 0) + totals.get("unsent", 0) >= own for _, totals, own in _living(started, due)
    )
    return drain_end_ns(
        started.start_at_ns + round(options.duration_s * 1e9),
        round(options.loss_timeout_s * 1e9),
        # Read after the totals: an emission that they count is in it.
        started.publisher.last_emitted_at_ns(),
        settled=settled,
    )


def _living(started: StartedRun, due: Sequence[int]) -> list[tuple[Mode, dict[str, int], int]]:
    """Return of each sender that lives its mode, what it has done so far, and how many messages are due from it."""
    components = started.components
    modes = [share.part.mode for share in started.plan.senders]
    every = zip(components.senders, modes, started.publisher.shard_totals(), due, strict=True)
    return [(mode, totals, own) for name, mode, totals, own in every if name not in components.children.dead]


def drain_end_ns(end_ns: int, timeout_ns: int, last_emitted_at_ns: int, *, settled: bool) -> int:
    """Return when the loss timeout of the last message is over.

    Vehicles keep what they could not send for one loss timeout after the end of the schedule, then give it up; what
    left in that time has a loss timeout of its own.

    Args:
        end_ns: end of the schedule.
        timeout_ns: the loss timeout.
        last_emitted_at_ns: of the messages emitted so far.
        settled: every message due was emitted or given up: no emission comes any more.
    """
    if settled:
        return max(end_ns, last_emitted_at_ns) + timeout_ns
    return end_ns + 2 * timeout_ns + SETTLE_NS


def arrived(started: StartedRun, due: Sequence[int]) -> bool:
    """Say whether nothing is on its way any more: every message due is at its end, or was never sent.

    Of a sender that died nothing is due any more but what its log says it has sent.
    """
    living = _living(started, due)
    for mode, totals, own in living:
        settled = sum(totals.get(name, 0) for name in ("acknowledged", "refused", "unanswered", "unsent"))
        if mode.acknowledged and settled < own:
            return False
    totals = started.publisher.totals()
    of_dead = totals.get("emitted", 0) - sum(own.get("emitted", 0) for _, own, _ in living)
    gone = sum(own.get("unsent", 0) for _, own, _ in living)
    reader, consumer = started.components.live_reader, started.components.consumer
    if consumer is not None:
        at_end = int(consumer.latest.get("progress", {}).get("distinct", 0))
    else:
        at_end = totals.get("received", 0) if reader is None else reader.contained()
    return at_end + gone >= sum(own for _, _, own in living) + of_dead
