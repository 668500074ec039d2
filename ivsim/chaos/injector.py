"""Plays a schedule's faults into a run that goes on, and notes when each began and when its parts were back."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

from ivsim.chaos.disturbances import DISTURBANCES, inject, process_of, relaunch, resume, settled
from ivsim.chaos.faults import BrokerEnds
from ivsim.chaos.schedule import AFTER_S, Planned, Schedule
from ivsim.runs.started import StartedRun
from ivsim.testbed.process import ProcessDied

POLL_S: Final = 0.1
# What all parts may take together to be back behind the last fault; Spark on two busy cores has taken 100 s.
BACK_S: Final = 240.0


class Injector:
    """What a run calls again and again: it begins and ends each fault at its time.

    A fault waits until its parts are ready, so that each meets parts that live. Behind the last one's time the run
    waits for all of them to be back.

    Attributes:
        injected: names of the faults that began, in order.
        injected_at_ns: by a fault's name, when each of them had done what it does.
        broker_ends: of the run.
        back_at_ns: when the last part was back.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._waiting = list(schedule.faults)
        self._due_s = schedule.duration_s - AFTER_S
        self._lasting: list[tuple[float, Planned]] = []
        self._coming: set[str] = set()
        self._down: dict[str, str] = {}
        self._run: StartedRun | None = None
        self.injected: list[str] = []
        self.injected_at_ns: defaultdict[str, list[int]] = defaultdict(list)
        self.broker_ends = BrokerEnds()
        self.back_at_ns: int | None = None

    def done(self) -> bool:
        """Say whether every fault began, and every part is back."""
        return not (self._waiting or self._lasting or self._coming)

    def __call__(self, run: StartedRun) -> None:
        self._run = run
        try:
            self._play(run)
        except BaseException:
            self.release()  # what accounts for the run now cannot read a Kafka that stands still
            raise

    def _play(self, run: StartedRun) -> None:
        self._step(run)
        if self._elapsed_s(run) < self._due_s:
            return
        limit_s = time.monotonic() + BACK_S
        while not self.done() and time.monotonic() < limit_s:
            run.components.check()
            time.sleep(POLL_S)  # what is waited for are other processes, which tell nobody
            self._step(run)

    def release(self) -> None:
        """Let what is stopped go on, however the run ended: the next one has the same Kafka and Spark."""
        if self._run is None:
            return
        for _, planned in self._lasting:
            for part in DISTURBANCES[planned.fault].fault.parts:
                resume(self._run, part)

    @staticmethod
    def _elapsed_s(run: StartedRun) -> float:
        return (time.time_ns() - run.start_at_ns) / 1e9

    def _step(self, run: StartedRun) -> None:
        self.broker_ends.watch(run)
        if self.done():
            return
        self._end_faults(run)
        self._look(run)
        self._begin_faults(run)
        if self.done():
            self.back_at_ns = time.time_ns()

    def _end_faults(self, run: StartedRun) -> None:
        for entry in [entry for entry in self._lasting if entry[0] <= self._elapsed_s(run)]:
            self._lasting.remove(entry)
            row = DISTURBANCES[entry[1].fault]
            row.restore(run)
            self._coming.update(row.fault.parts)

    def _look(self, run: StartedRun) -> None:
        for part in sorted(self._coming):
            if self._settled(run, part):
                self._coming.discard(part)
                run.components.children.down.discard(self._down.pop(part, ""))

    @staticmethod
    def _settled(run: StartedRun, part: str) -> bool:
        """Ask whether a part is ready; one that has ended instead is started again, as a supervisor does.

        A Spark job that begins while its Kafka does not answer says so and ends.
        """
        try:
            return settled(run, part)
        except ProcessDied:
            relaunch(part)(run)
            return False

    def _begin_faults(self, run: StartedRun) -> None:
        busy = self._coming | {
            part for _, planned in self._lasting for part in DISTURBANCES[planned.fault].fault.parts
        }
        for planned in [planned for planned in self._waiting if planned.at_s <= self._elapsed_s(run)]:
            parts = DISTURBANCES[planned.fault].fault.parts
            if busy & set(parts):
                continue
            self._waiting.remove(planned)
            busy |= set(parts)
            for part in parts:
                if (process := process_of(run, part)) is not None:
                    self._down[part] = process.name
                    run.components.children.down.add(process.name)
            inject(run, planned.fault, planned.down_s)
            self.injected.append(planned.fault)
            self.injected_at_ns[planned.fault].append(time.time_ns())
            self.broker_ends.note(run, planned.fault)
            self._lasting.append((self._elapsed_s(run) + planned.down_s, planned))
