"""The echo engine: publisher, broker and receiver beside the publisher; many cells side by side, no Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from ivsim.report.drawing import Charts
from ivsim.runs.runner import BROKEN
from ivsim.study import charts
from ivsim.study.cells import Cell, Kept, Session
from ivsim.study.engines import run_axes
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.echo import link_checks, plan
from ivsim.study.engines.echo.metrics import ECHO_METRICS
from ivsim.study.engines.echo.observations import EchoObservations
from ivsim.study.engines.echo.ping import PINGS, ping
from ivsim.study.engines.echo.session import EchoSession
from ivsim.study.engines.echo.testbed import EchoTestbed
from ivsim.study.results import CellResult, done_of
from ledger.metrics import Metric
from schemas.json_files import write_json
from simulator.links import choose

# What of a run an echo cell reads; a field that would do nothing is refused.
FIELDS: Final = (
    *("protocol", "mode", "format", "message_bytes", "vehicles", "interval_s", "duration_s", "warmup_s"),
    *("loss_timeout_s", "seed", "link", "trace", "trace_offsets", "rate_factor", "rtt", "shaping"),
    *("loss_ratio", "loss_direction", "loss_burst", "jitter_ms", "jitter_distribution", "reorder_ratio"),
    *("queue_bytes", "outage", "tcp", "coap_block_bytes", "keepalive_s", "outbox_limit", "outbox_policy"),
)


class Echo(Engine):
    """Cells whose messages come back to the vehicle's own address; see the module."""

    name: ClassVar[str] = "echo"
    summary: ClassVar[str] = (
        "messages that return across the link; many cells side by side, without Kafka and Spark"
    )
    series_axis: ClassVar[str] = run_axes.MODE
    metrics: Mapping[str, Metric] = ECHO_METRICS

    def axes(self) -> Mapping[str, Axis]:
        return run_axes.axes_of(FIELDS)

    def fields(self) -> Mapping[str, Axis]:
        return run_axes.fields_of(FIELDS)

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        return run_axes.checked(fixed, values, topology="echo")

    def sessions(self, cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
        return plan.pack(cells, apart)

    def seconds(self, session: Session) -> float:
        return plan.seconds(session)

    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> OpenEcho:
        return OpenEcho(work, results.path, sessions)

    def observations(self, cell: Cell, done: Sequence[Kept]) -> EchoObservations:
        return EchoObservations(cell, list(done))

    def series(self, cell: Cell) -> str:
        return run_axes.mode_of(cell)

    def charts(self, results: Sequence[CellResult]) -> Charts:
        done = done_of(results)
        found: Charts = {}
        cells = {self.series(r.cell): r.observations for r in done}
        if len(cells) > 1 and len(done) <= len(cells):

            def draw(axes: Any) -> None:
                samples = {
                    m: (o.received_ms, o.due) for m, o in cells.items() if isinstance(o, EchoObservations)
                }
                charts.ecdf(axes, samples, "latency, ms")
                charts.legend(axes)

            found["ecdf.svg"] = (charts.drawn(draw), "Latency of every message due")
        return found | run_axes.trace_chart(done)

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        del results
        return link_checks.sections(directory)

    def caveats(self, results: Sequence[CellResult]) -> list[str]:
        return run_axes.caveats(results)


class OpenEcho:
    """The testbed of a link, opened when its first session comes; closed for another's, and at the end."""

    def __init__(self, work: Path, study: Path, sessions: Sequence[Session]) -> None:
        self._work = work
        self._study = study
        self._sessions = sessions
        self._open: tuple[str, EchoTestbed, ExitStack] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Run one session; what breaks all of it fails its cells, and the next one gets a new testbed."""
        try:
            running = EchoSession(self._testbed(run_axes.options_of(session.cells[0]).link), session, tick)
            running.run()
        except BROKEN as error:
            self._close()
            for task in session.tasks:
                yield Outcome(task, {}, first_line(error))
            return
        number, directory = results.begin_session()
        running.write_link_log(directory / "link.parquet")
        write_json(directory / "session.json", running.about())
        for placement in running.placements:
            try:
                figures = running.write(placement, results.begin(placement.task))
            except BROKEN as error:
                yield Outcome(placement.task, {}, first_line(error))
            else:
                yield Outcome(placement.task, figures | {"session": number})

    def _testbed(self, link: str) -> EchoTestbed:
        if self._open is not None and self._open[0] == link:
            return self._open[1]
        self._close()
        cells = [s.cells for s in self._sessions if run_axes.options_of(s.cells[0]).link == link]
        protocols = {run_axes.options_of(cell).protocol for together in cells for cell in together}
        most = max(plan.vehicles(together) for together in cells)
        stack = ExitStack()
        testbed = stack.enter_context(EchoTestbed(self._work, choose(link), most, protocols))
        self._open = (link, testbed, stack)
        # Before the link is asked for anything: the round trip of the bare link, as the paper's 200 pings.
        write_json(self._study / f"ping-{link}.json", {"rtt_ms": ping(testbed.link, PINGS)})
        return testbed

    def _close(self) -> None:
        if self._open is not None:
            self._open[2].close()
            self._open = None
        shutil.rmtree(self._work, ignore_errors=True)


def pings_of_sweep(study: Path, sweep: str) -> list[list[float]]:
    """Return the round-trip times in ms on the links of a sweep whose `rtt` is a number, of each session with one."""
    found = []
    for path in sorted(study.glob("sessions/*/session.json")):
        times = json.loads(path.read_text()).get("ping_ms", {}).get(sweep, [])
        found += [times] if times else []
    return found


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def pings(study: Path, link: str) -> list[float]:
    """Return the round-trip times of the bare link in ms, none when they were not measured."""
    try:
        found: list[float] = json.loads((study / f"ping-{link}.json").read_text())["rtt_ms"]
    except (OSError, ValueError, KeyError):
        return []
    return found
