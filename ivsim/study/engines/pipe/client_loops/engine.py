"""The clients engine: client libraries in turn, each in its own process, at the servers of one platform."""

from __future__ import annotations

import random
import secrets
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.study.cells import Cell, Session, Task
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.engines.pipe.client_loops.metrics import CLIENT_METRICS, latencies
from ivsim.study.engines.pipe.client_loops.options import (
    LOOPS,
    SETTINGS,
    SINGLE,
    STREAM,
    WARM,
    ClientOptions,
    asked,
    client_options,
    sender_settings,
    unobeyed,
)
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from ivsim.study.engines.pipe.platforms.base import OpenPlatform
from ivsim.study.markdown import table
from ivsim.study.results import CellResult
from ivsim.testbed.child import Child
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from ledger.metrics import Metric

WORKER: Final = "ivsim.study.engines.pipe.client_loops.worker"
READY_S: Final = 60.0
MEASURED_S: Final = 240.0
LATENCIES: Final = "latencies.parquet"
# What a measurement takes beside its records: a topic, clients opened and closed; a new process and its JVM.
AROUND_S: Final = 0.6
NEW_PROCESS_S: Final = 2.5
RECORD_S: Final = 40e-6
BYTE_S: Final = 1 / 150e6
SINGLE_S: Final = 0.003
# What a process does before its first measurement, so that no cell has the start of a JVM in it alone.
PRIMING_MESSAGES: Final = 1_000
PRIMING_BYTES: Final = 1_000


class Clients(Engine):
    """Cells of client libraries, loops, sizes, counts and settings; see the module."""

    name: ClassVar[str] = "clients"
    summary: ClassVar[str] = (
        "client libraries of one platform: produce, consume, burst and one record at a time"
    )
    series_axis: ClassVar[str] = "client"
    metrics: Mapping[str, Metric] = CLIENT_METRICS

    def missing_for(self, cells: Sequence[Cell]) -> str | None:
        rows = [platform_named(name) for name in sorted({_options(cell).client for cell in cells})]
        return next((why for row in rows if (why := row.missing()) is not None), None)

    def axes(self) -> Mapping[str, Axis]:
        fixed = ("warmup_messages", "seed")
        return {name: axis for name, axis in self.fields().items() if name not in fixed}

    def fields(self) -> Mapping[str, Axis]:
        said = {
            "client": ("text", ", ".join(PLATFORMS)),
            "loop": ("text", ", ".join(LOOPS)),
            "path": ("text", "interface, bare"),
            "bytes": ("integer", "from 1 to 900000"),
            "messages": ("integer", "from 10 to 1000000"),
            "settings": ("text", ", ".join(SETTINGS)),
            "process": ("text", "kept, new"),
            "warmup_messages": ("integer", "from 1 to 100000"),
            "linger_ms": ("number", "from 0 to 60000"),
            "seed": ("integer", "from 0"),
        }
        return {name: Axis(name, *said[name]) for name in ClientOptions.model_fields}

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        options = client_options({**fixed, **values})
        idle = {"warmup_messages": f"only with settings {WARM}"} if options.settings != WARM else {}
        return Checked(options, {name: why for name, why in idle.items() if name in fixed})

    def sessions(self, cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
        """Return the clients of one workload together: they follow one another, so that a slow moment hits all."""
        del apart
        alike: dict[Any, list[Cell]] = {}
        for cell in cells:
            options = _options(cell).model_copy(update={"client": "", "path": "interface"})
            alike.setdefault((cell.sweep, options), []).append(cell)
        return list(alike.values())

    def seconds(self, session: Session) -> float:
        return sum(_seconds(_options(cell)) for cell in session.cells)

    @contextmanager
    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> Iterator[OpenClients]:
        del results, sessions
        work.mkdir(parents=True, exist_ok=True)
        run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-clients-{secrets.token_hex(2)}"
        with RunRecord(run, work) as record, ExitStack() as stack:
            yield OpenClients(record, work, stack)

    def unmeasurable(self, cell: Cell, metric: str) -> str | None:
        options = _options(cell)
        if metric.startswith("latency_") and options.loop == STREAM:
            return f"needs another loop than {STREAM}"
        if metric.startswith(("produce_", "consume_")) and options.loop != STREAM:
            return f"needs loop {STREAM}"
        return None

    def sections(self, directory: Path, results: Sequence[CellResult]) -> list[str]:
        del directory
        return [settings_section(results)]

    def caveats(self, results: Sequence[CellResult]) -> list[str]:
        del results
        return [
            "Client and platform share this machine's processors: times are of both, and CPU time by record is the firmer figure.",
            "CPU time of a JVM beside the client's process and of the platform is counted in steps of 10 ms.",
        ]


def settings_section(results: Sequence[CellResult]) -> str:
    """Return what the named settings are for each client, and which of them it has not."""
    rows: dict[tuple[str, str], list[str]] = {}
    for one in results:
        options = _options(one.cell)
        said = {name: value for name, value in asked(options).items() if name not in unobeyed(options)}
        row = [options.settings, options.client, ", ".join(f"{k} {v}" for k, v in said.items())]
        rows.setdefault((options.settings, options.client), [*row, ", ".join(unobeyed(options)) or "none"])
    meanings = "\n".join(
        f"- `{name}`: {meaning}" for name, meaning in SETTINGS.items() if any(name == key[0] for key in rows)
    )
    head = ["settings", "client", "told", "has no setting for"]
    return f"## Settings\n\n{meanings}\n\n" + table(head, [rows[key] for key in sorted(rows)])


def _seconds(options: ClientOptions) -> float:
    own = options.messages * (RECORD_S + 2 * options.bytes * BYTE_S)
    if options.loop == SINGLE:
        own = options.messages * SINGLE_S
    return AROUND_S + own + (NEW_PROCESS_S if options.process == "new" else 0.0)


def _options(cell: Cell) -> ClientOptions:
    assert isinstance(cell.options, ClientOptions)
    return cell.options


class OpenClients:
    """The platforms' servers, and a process for each client, both started when they are first asked for."""

    def __init__(self, record: RunRecord, work: Path, stack: ExitStack) -> None:
        self._record, self._work, self._stack = record, work, stack
        self._servers: dict[Any, OpenPlatform] = {}
        self._kept: dict[str, Child] = {}
        self._count = 0

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        """Measure the tasks of a session one after another, in an order drawn for this repetition."""
        tasks = list(session.tasks)
        random.Random(f"{tasks[0].seed}/{tasks[0].cell.name}").shuffle(tasks)
        for done, task in enumerate(tasks):
            tick(sum(_seconds(_options(one.cell)) for one in tasks[done:]))
            try:
                yield self._one(task, results)
            except (ProcessDied, NotReady) as error:
                self._end(_options(task.cell).client)
                yield Outcome(task, {}, str(error))

    def _one(self, task: Task, results: Results) -> Outcome:
        options = _options(task.cell)
        directory = results.begin(task)
        platform = self._server(options)
        if options.process == "kept":
            found = self._measured(self._worker(options), platform, options, directory)
        else:
            with ExitStack() as stack:
                child = self._started(options, stack)
                found = self._measured(child, platform, options, directory)
                found["process_ms"] = child.latest["ready"]["since_start_ms"]
        if found.get("wrong") or found.get("failure"):
            said = found.get("failure") or f"{found['wrong']} records with other bytes than were sent"
            return Outcome(task, {}, said)
        return Outcome(task, found)

    def _server(self, options: ClientOptions) -> OpenPlatform:
        """Return the servers of a client; rows that start theirs in the same way share them."""
        row = platform_named(options.client)
        how = type(row).open
        if how not in self._servers:
            self._servers[how] = self._stack.enter_context(
                row.open(self._record, self._work / f"{row.name}-files")
            )
        self._servers[how].check()
        return self._servers[how]

    def _started(self, options: ClientOptions, stack: ExitStack) -> Child:
        self._count += 1
        row = platform_named(options.client)
        began_ns = time.perf_counter_ns()
        child = Child(f"{row.name}-{self._count}", [WORKER, row.clients], self._record)
        stack.callback(child.stop)
        child.wait_for("ready", READY_S)
        child.latest["ready"]["since_start_ms"] = (time.perf_counter_ns() - began_ns) / 1e6
        return child

    def _worker(self, options: ClientOptions) -> Child:
        """Return the process that is kept for a client; a new one is primed."""
        name = options.client
        if name not in self._kept:
            self._kept[name] = self._started(options, self._stack)
            first = ClientOptions(
                client=name, seed=options.seed, messages=PRIMING_MESSAGES, bytes=PRIMING_BYTES
            )
            priming = self._work / f"{name}-priming"
            priming.mkdir(parents=True, exist_ok=True)
            self._measured(self._kept[name], self._server(options), first, priming)
        return self._kept[name]

    def _end(self, name: str) -> None:
        child = self._kept.pop(name, None)
        if child is not None:
            child.stop()

    def _measured(
        self, child: Child, platform: OpenPlatform, options: ClientOptions, directory: Path
    ) -> dict[str, Any]:
        settings = sender_settings(options)
        place = platform.place(f"clients-{secrets.token_hex(4)}", settings)
        out = directory / "latencies.bin"
        try:
            child.send(
                "measure",
                place=place,
                settings=settings,
                loop=options.loop,
                path=options.path,
                bytes=options.bytes,
                messages=options.messages,
                warmup=options.warmup,
                seed=options.seed,
                platform=list(platform.pids().values()),
                out=str(out),
            )
            answer = child.wait_for("measured", MEASURED_S)
        finally:
            platform.clear(place)
        if "failure" in answer:
            return {"failure": str(answer["failure"])}
        found = array("q", out.read_bytes())
        out.unlink()
        if found:
            rows = pa.table({"latency_ns": pa.array(found, pa.int64(), mask=[one == 0 for one in found])})
            pq.write_table(rows, directory / LATENCIES, compression="zstd")
        return {**answer["figures"], **latencies(found)}
