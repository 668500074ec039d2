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

from gateways.protocols import PROTOCOLS
from ivsim.options import fixed_rtt_ms
from ivsim.runs.children import Children, ChildSpec
from ivsim.runs.clock import ClockWatch
from ivsim.runs.crossing import Crossing
from ivsim.runs.link_log import write_link_log
from ivsim.runs.processes import capture_config
from ivsim.study.cells import Session
from ivsim.study.engines.echo.metrics import echo_figures, measured, wire_of
from ivsim.study.engines.echo.ping import FIRST_PINGS, PINGS, ping
from ivsim.study.engines.echo.placement import (
    CONNECT_S,
    Group,
    Placement,
    groups_of,
    placements_of,
    sender_config_of,
    side_by_side,
)
from ivsim.study.engines.echo.testbed import EchoTestbed
from ivsim.study.engines.run_axes import options_of
from ivsim.study.sealed import write_sealed
from ivsim.testbed.process import ProcessDied
from schemas.topics import vehicle_id
from simulator import emission_table
from simulator.capture.process import MESSAGES_NAME
from simulator.links import Condition, tcp_stack
from simulator.sender_config import SenderConfig

CONNECT_DELAY_MS: Final = 35.0
START_AFTER_NS: Final = 1_500_000_000
TICK_S: Final = 0.25
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class EchoSession:
    """One session from connecting its vehicles to its cells' files."""

    def __init__(self, testbed: EchoTestbed, session: Session, tick: Callable[[float], None]) -> None:
        self._testbed = testbed
        self._tick = tick
        self._work = testbed.work / "session"
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        self.placements = placements_of(session)
        self.groups = groups_of(self.placements, self._work)
        self._options = options_of(session.cells[0])
        self._clock = ClockWatch.start()
        self.start_at_ns = 0
        self._crossing: Crossing | None = None
        self._ping_ms: dict[str, list[float]] = {}
        self._prefix = secrets.token_hex(2)

    def run(self) -> None:
        """Run to the end; a group that fails is noted, the others go on. LinkError, ProcessDied otherwise."""
        with ExitStack() as stack:
            # Connected before the trace begins, as the paper's clients were: no hand-shake is measured.
            gentle = (Condition(None, CONNECT_DELAY_MS), Condition(None, CONNECT_DELAY_MS))
            easy = {number: gentle for placement in self.placements for number in placement.vehicles}
            self._testbed.link.update(easy)
            tcp_stack.use(self._testbed.link, self._options.tcp)
            self._crossing = stack.enter_context(self._open_crossing())
            self._connect(Children(self._testbed.record, self._work, stack))
            self._ping()
            self._testbed.link.update(easy)
            self.start_at_ns = time.time_ns() + START_AFTER_NS
            self._crossing.begin(self.start_at_ns)
            self._begin()
            self._wait(self._crossing)
            self._crossing.end()
            self._testbed.link.update(easy)
            self._dismiss()

    def _open_crossing(self) -> Crossing:
        link = self._testbed.link
        capture = capture_config(
            device=link.vehicles_device,
            directory=self._work,
            echo=True,
            datagram_ports={row.name: tuple(row.echo_ports.values()) for row in PROTOCOLS.values()},
        )
        return Crossing(
            link,
            side_by_side(self.placements),
            probed=range(0),
            capture=capture,
            record=self._testbed.record,
            work=self._work,
        )

    def _connect(self, children: Children) -> None:
        inside = self._testbed.link.vehicles_namespace
        for group in self.groups:
            config = self._sender_config(group)
            group.child = children.start(
                ChildSpec(f"sender-{group.name}", ("simulator.sender",), config, inside)
            )
        for group in self.groups:
            with _noted(group):
                assert group.child is not None
                ready = group.child.wait_for("ready", CONNECT_S)
                if ready["connected"] < len(group.numbers):
                    missing = len(group.numbers) - ready["connected"]
                    raise ProcessDied(group.name, None, f"{missing} vehicles could not connect")

    def _ping(self) -> None:
        """Take the round-trip times of links that keep one delay, one of each sweep, before anything is sent on them."""
        for placement in self.placements:
            cell, first = placement.task.cell, placement.vehicles.start
            if cell.sweep in self._ping_ms or not fixed_rtt_ms(options_of(cell)):
                continue
            self._testbed.link.update({first: placement.schedule.at(0)[1]})
            # The first resolve addresses.
            ping(self._testbed.link, FIRST_PINGS, vehicle=first)
            self._ping_ms[cell.sweep] = ping(self._testbed.link, PINGS, vehicle=first)

    def _sender_config(self, group: Group) -> SenderConfig:
        options = group.placements[0].task.cell.options
        # Of this session alone: what an earlier one has left at a broker is nobody's.
        return sender_config_of(
            group,
            port=self._testbed.port(options.protocol, options.mode),
            client_prefix=f"{self._prefix}-",
        )

    def _begin(self) -> None:
        for group in self.groups:
            with _noted(group):
                assert group.child is not None
                group.cpu_s = _cpu_s(group.child.pid)
                group.child.send("start", at_ns=self.start_at_ns + group.stagger_ns)

    def _wait(self, crossing: Crossing) -> None:
        end_ns = self.start_at_ns + round((self._options.duration_s + self._options.loss_timeout_s) * 1e9)
        while (left_s := (end_ns - time.time_ns()) / 1e9) > 0:
            self._tick(left_s)
            self._testbed.check()
            crossing.check()
            for group in self.groups:
                with _noted(group):
                    assert group.child is not None
                    group.child.check()
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

    def write(self, placement: Placement, directory: Path) -> dict[str, Any]:
        """Write a cell's tables and return its figures; `directory` exists and is empty."""
        group = next(g for g in self.groups if placement in g.placements)
        if group.failure is not None:
            raise ProcessDied(group.name, None, group.failure)
        options = placement.task.cell.options
        start_at_ns = self.start_at_ns + group.stagger_ns
        numbers = list(placement.vehicles)
        emissions = emission_table.to_table(group.events, group.scenario, start_at_ns, numbers)
        pq.write_table(emissions, directory / "emissions.parquet", compression="zstd")
        from_ns = start_at_ns + round(options.warmup_s * 1e9)
        to_ns = start_at_ns + round(options.duration_s * 1e9)
        cell = measured(emissions, placement.vehicles.start, from_ns, to_ns, options.loss_timeout_s)
        figures = echo_figures(cell)
        messages = self._messages(numbers)
        pq.write_table(messages, directory / MESSAGES_NAME, compression="zstd")
        wire = wire_of(messages, placement.vehicles, (from_ns, to_ns), cell)
        window_s = options.duration_s - options.warmup_s
        figures |= _wire_figures(wire.overhead_bytes, wire.wire_bytes, figures, options.vehicles, window_s)
        sent = len(group.numbers) * self._seconds() / options.interval_s
        figures |= {
            "sender_cpu_us_per_message": group.cpu_s * 1e6 / sent,
            "clock_drift_ms": self._clock.drift_ms(),
            "kernel_drops": self._crossed.capture_drops,
        }
        run = {"start_at_ns": start_at_ns, "warmup_s": options.warmup_s, "end_at_ns": to_ns}
        write_sealed(directory / "run.json", {**run, "first_vehicle": placement.vehicles.start})
        return figures

    def _seconds(self) -> float:
        return self._options.duration_s + self._options.loss_timeout_s

    def _messages(self, numbers: list[int]) -> pa.Table:
        return pq.read_table(
            self._work / MESSAGES_NAME,
            filters=[("vehicle_id", "in", [vehicle_id(number) for number in numbers])],
        )

    def write_link_log(self, path: Path) -> None:
        """Write the session's link log: what every vehicle's link was asked, and what the kernel counted."""
        write_link_log(path, self._crossed.rows(), self._crossed.wire_events, compression="zstd")

    @property
    def _crossed(self) -> Crossing:
        assert self._crossing is not None
        return self._crossing

    def about(self) -> dict[str, Any]:
        """Return what the session's manifest says beside the cells."""
        return {
            "start_at_ns": self.start_at_ns,
            "ping_ms": self._ping_ms,
            "load_average": os.getloadavg()[0],
            "link": self._testbed.properties(),
            "tcp": tcp_stack.settings(self._testbed.link),
            "replay": self._crossed.properties,
            "vehicles_of_cells": {
                p.task.name: [p.vehicles.start, p.vehicles.stop - 1] for p in self.placements
            },
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


def _cpu_s(pid: int) -> float:
    """Return user and system time of a process so far, in s; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a file of the kernel
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
