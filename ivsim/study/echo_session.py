"""Runs echo cells at the same time on one open testbed and writes the tables of each; it judges no figure."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.clock import ClockWatch
from ivsim.link_log import link_table
from ivsim.run_directory import write_json
from ivsim.study.bench import ECHO_PORTS, Bench
from ivsim.study.figures_of_cells import echo_figures, measured, wire_of
from ivsim.study.places import Group, Place, conditions, groups_of, places_of
from ivsim.study.plan import Session
from ivsim.testbed.child import Child
from ivsim.testbed.process import ProcessDied
from schemas.topics import CLOUD_ADDRESS, vehicle_id
from simulator import emission_table
from simulator.links import Condition, LinkError
from simulator.links.capture import MESSAGES_NAME
from simulator.links.replay import LinkReplay

CONNECT_DELAY_MS: Final = 35.0
CONNECT_S: Final = 60.0
START_AFTER_NS: Final = 1_500_000_000
# Vehicles go on sending until all measured messages had their time-out: no last one is spared a successor.
BEYOND_S: Final = 86_400.0
CAPTURE_S: Final = 120.0
TICK_S: Final = 0.25
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class EchoSession:
    """One session from connecting its vehicles to its cells' files."""

    def __init__(self, bench: Bench, session: Session, tick: Callable[[float], None]) -> None:
        self._bench = bench
        self._session = session
        self._tick = tick
        self._work = bench.work / "session"
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        self.places = places_of(session)
        self.groups = groups_of(self.places, self._work)
        self._options = session.tasks[0].cell.options
        self._clock = ClockWatch.start()
        self.start_at_ns = 0
        self.replay: LinkReplay | None = None
        self._kernel_drops = 0
        self._prefix = secrets.token_hex(2)

    def run(self) -> None:
        """Run to the end; a group that fails is noted, the others go on. LinkError, ProcessDied otherwise."""
        with ExitStack() as stack:
            for group in self.groups:
                stack.callback(_stop, group)
            # Connected before the road begins, as the paper's clients were: no hand-shake is measured.
            gentle = (Condition(None, CONNECT_DELAY_MS), Condition(None, CONNECT_DELAY_MS))
            easy = {number: gentle for place in self.places for number in place.vehicles}
            self._bench.link.update(easy)
            capture = self._open_capture()
            stack.callback(capture.stop)
            self._connect()
            self.start_at_ns = time.time_ns() + START_AFTER_NS
            self.replay = stack.enter_context(
                LinkReplay(self._bench.link, lambda s: conditions(self.places, s), self.start_at_ns)
            )
            capture.send("start", at_ns=self.start_at_ns)
            self._begin()
            self._wait(capture)
            capture.send("stop")
            self._kernel_drops = int(capture.wait_for("done", CAPTURE_S)["kernel_drops"])
            self.replay.stop()
            self._bench.link.update(easy)
            self._dismiss()

    def _open_capture(self) -> Child:
        link = self._bench.link
        config = {
            "device": link.vehicles_device,
            "run_dir": str(self._work),
            "echo": True,
            "coap_ports": list(ECHO_PORTS.values()),
        }
        child = self._bench.child(
            "capture", ["simulator.links.capture"], config, inside=link.vehicles_namespace
        )
        child.wait_for("ready", CONNECT_S)
        return child

    def _connect(self) -> None:
        for group in self.groups:
            group.child = self._bench.child(
                f"pacer-{group.name}",
                ["simulator.pacer"],
                self._pacer_config(group),
                inside=self._bench.link.vehicles_namespace,
            )
        for group in self.groups:
            with _noted(group):
                assert group.child is not None
                ready = group.child.wait_for("ready", CONNECT_S)
                if ready["connected"] < len(group.numbers):
                    missing = len(group.numbers) - ready["connected"]
                    raise ProcessDied(group.name, None, f"{missing} vehicles could not connect")

    def _pacer_config(self, group: Group) -> dict[str, Any]:
        options = group.places[0].task.cell.options
        scenario = group.scenario.model_copy(update={"duration_s": options.duration_s + BEYOND_S})
        return {
            "protocol": options.protocol,
            "mode": options.mode,
            "topology": "echo",
            "host": CLOUD_ADDRESS,
            "port": self._bench.port(options.protocol, options.mode),
            "scenario": scenario.model_dump(),
            "vehicles": group.numbers,
            "events_path": str(group.events),
            "bind_addresses": True,
            "outbox_limit": options.outbox_limit,
            "outbox_policy": options.outbox_policy,
            "connect_wait_s": CONNECT_S,
            # Of this session alone: what an earlier one has left at a broker is nobody's.
            "client_prefix": f"{self._prefix}-",
        }

    def _begin(self) -> None:
        for group in self.groups:
            with _noted(group):
                assert group.child is not None
                group.cpu_s = _cpu_s(group.child.pid)
                group.child.send("start", at_ns=self.start_at_ns + group.stagger_ns)

    def _wait(self, capture: Child) -> None:
        assert self.replay is not None
        end_ns = self.start_at_ns + round((self._options.duration_s + self._options.loss_timeout_s) * 1e9)
        while (left_s := (end_ns - time.time_ns()) / 1e9) > 0:
            self._tick(left_s)
            self._bench.check()
            capture.check()
            for group in self.groups:
                with _noted(group):
                    assert group.child is not None
                    group.child.check()
            if self.replay.failure is not None:
                raise LinkError(str(self.replay.failure))
            time.sleep(min(TICK_S, left_s))
        for group in self.groups:
            if group.child is not None and group.failure is None:
                group.cpu_s = _cpu_s(group.child.pid) - group.cpu_s

    def _dismiss(self) -> None:
        """Tell all at once to take leave; waiting for each comes after."""
        for group in self.groups:
            if group.child is not None:
                with _noted(group):
                    group.child.send("stop")

    def write(self, place: Place, directory: Path) -> dict[str, Any]:
        """Write a cell's tables and return its figures; `directory` exists and is empty."""
        group = next(g for g in self.groups if place in g.places)
        if group.failure is not None:
            raise ProcessDied(group.name, None, group.failure)
        options = place.task.cell.options
        start_at_ns = self.start_at_ns + group.stagger_ns
        numbers = list(place.vehicles)
        emissions = emission_table.to_table(group.events, group.scenario, start_at_ns, numbers)
        pq.write_table(emissions, directory / "emissions.parquet", compression="zstd")
        from_ns = start_at_ns + round(options.warmup_s * 1e9)
        to_ns = start_at_ns + round(options.duration_s * 1e9)
        cell = measured(emissions, place.vehicles.start, from_ns, to_ns)
        figures = echo_figures(cell, options.loss_timeout_s)
        messages = self._messages(numbers)
        pq.write_table(messages, directory / MESSAGES_NAME, compression="zstd")
        wire = wire_of(messages, place.vehicles, (from_ns, to_ns), cell)
        window_s = options.duration_s - options.warmup_s
        figures |= _wire_figures(wire.overhead_bytes, wire.wire_bytes, figures, options.vehicles, window_s)
        sent = len(group.numbers) * self._seconds() / options.interval_s
        figures |= {
            "pacer_cpu_us_per_message": group.cpu_s * 1e6 / sent,
            "clock_drift_ms": self._clock.drift_ms(),
            "kernel_drops": self._kernel_drops,
        }
        run = {"start_at_ns": start_at_ns, "warmup_s": options.warmup_s, "end_at_ns": to_ns}
        write_json(directory / "run.json", {**run, "first_vehicle": place.vehicles.start})
        return figures

    def _seconds(self) -> float:
        return self._options.duration_s + self._options.loss_timeout_s

    def _messages(self, numbers: list[int]) -> pa.Table:
        return pq.read_table(
            self._work / MESSAGES_NAME,
            filters=[("vehicle_id", "in", [vehicle_id(number) for number in numbers])],
        )

    def link_log(self) -> pa.Table:
        """Return the session's link log: what every vehicle's road was asked, and what the kernel counted."""
        rows = self.replay.rows() if self.replay is not None else []
        return link_table(rows, self._work / "wire.events")

    def about(self) -> dict[str, Any]:
        """Return what the session's manifest says beside the cells."""
        return {
            "start_at_ns": self.start_at_ns,
            "load_average": os.getloadavg()[0],
            "link": self._bench.properties(),
            "replay": self.replay.properties() if self.replay is not None else {},
            "vehicles_of_cells": {p.task.name: [p.vehicles.start, p.vehicles.stop - 1] for p in self.places},
        }


def _wire_figures(
    overhead: Any, wire: Any, figures: dict[str, Any], vehicles: int, window_s: float
) -> dict[str, Any]:
    if not overhead.size:
        return {}
    month_s = 30 * 2 * 3_600
    return {
        "message_overhead_bytes": float(overhead.mean()),
        "crossing_overhead_bytes": float(overhead.mean()) / 2,
        "overhead_sd_bytes": float(overhead.std(ddof=1)) if overhead.size > 1 else None,
        "vehicle_month_bytes": float(wire.mean()) * figures["delivered"] / vehicles / window_s * month_s,
    }


class _noted:  # noqa: N801 - reads as a word
    """Note in a group what ends it, so that the other groups go on."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> bool:
        if isinstance(error, ProcessDied):
            self._group.failure = self._group.failure or str(error).partition("\n")[0]
            return True
        return False


def _stop(group: Group) -> None:
    if group.child is not None:
        group.child.stop()


def _cpu_s(pid: int) -> float:
    """Return user and system time of a process so far, in s; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a file of the kernel
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
