"""What a platform has kept of what it acknowledged when the power of its machine fails: `ivsim platform power-cut`.

kill -9 of a platform tells nothing of its disk: the kernel, which holds what was written, lives on. Here the platform
stands on a machine of its own (ivsim/testbed/machine.py), and that machine is killed while an open loop sends records to
it. It is switched on again with the same disk; the loop, which never stopped, goes on until the platform has answered for
a while. Then all that is there is read, for the first time: no consumer had taken anything before.

A record that was acknowledged before the cut and is not there is *lost after acknowledgement*. What was not acknowledged
is nobody's loss; the client sends it again, and what is there twice is a duplicate.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.platforms.base import Full, Host, OpenPlatform, Place, Receiver, Sender
from ivsim.testbed.machine import Machine
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from schemas.namespace import inside

PAYLOAD_BYTES: Final = 1_024
# From the first acknowledgement to the cut: longer than Redis' second between two fsyncs, however the dice fall.
CUT_BETWEEN_S: Final = (3.0, 6.0)
GOES_ON_S: Final = 3.0
BACK_S: Final = 180.0
FIRST_S: Final = 30.0
FLUSH_S: Final = 60.0
READ_S: Final = 60.0
QUIET_S: Final = 3.0
LOOK_S: Final = 0.002
# Answers from before the cut are read within it: they are in the client's socket already.
UNREAD_S: Final = 0.1


@dataclass(frozen=True)
class Cut:
    """One cut of the power.

    Attributes:
        sent: records given to the client, before and after the cut.
        acknowledged: of those, before the cut.
        lost: of those, not there afterwards.
        lost_span_s: from the acknowledgement of the first one lost to the cut; None where none was.
        lost_after: acknowledged after the cut, and not there.
        duplicates: copies beside the first.
        foreign: records there that nobody sent.
        recovery_s: from the cut to the first acknowledgement of a record sent after it.
    """

    platform: str
    durability: str
    seed: int
    rate: float
    cut_after_s: float
    sent: int
    acknowledged: int
    lost: int
    lost_span_s: float | None
    lost_after: int
    duplicates: int
    foreign: int
    recovery_s: float


def settings_of(platform: str, durability: str, rate: float) -> dict[str, Any]:
    """Return the clients' settings; Refusal for a platform that has no such durability."""
    asked = {"platform": platform, "durability": durability, "rate": rate, "partitions": 1}
    return pipe_options(asked).model_dump(mode="json")


def cut(settings: dict[str, Any], seed: int, record: RunRecord, work: Path) -> Cut:
    """Cut the power once; NotReady or ProcessDied when the platform does not come, or does not come back.

    Args:
        settings: of the clients, by `settings_of`.
        seed: of the moment and the payload.
        record: of the run.
        work: scratch directory.
    """
    row = platform_named(settings["platform"])
    with Machine(record) as machine:
        host = Host(machine.address, machine.namespace, machine)
        with row.open(record, work, 1, host) as opened, inside(machine.namespace):
            return Loop(opened, import_module(row.clients), settings, seed).run()


class Loop:
    """The records of one cut, and what became of them.

    Args:
        platform: one that is open, on a machine of its own.
        clients: the module of its clients.
        settings: as `cut` has them.
        seed: likewise.
    """

    def __init__(self, platform: OpenPlatform, clients: Any, settings: dict[str, Any], seed: int) -> None:
        self._platform, self._settings, self._seed = platform, settings, seed
        self._place: Place = platform.place("power", settings)
        self._sender: Sender = clients.sender(self._place, settings, 0, self._report)
        self._clients = clients
        random = Random(seed)
        self._filling = random.randbytes(PAYLOAD_BYTES)
        self._cut_after_s = random.uniform(*CUT_BETWEEN_S)
        self._sent = 0
        self._sent_s: dict[int, float] = {}
        self._answered_s: dict[int, float] = {}

    def _report(self, number: int, problem: str | None) -> None:
        if problem is None:
            self._answered_s[number] = time.monotonic()

    def run(self) -> Cut:
        """Send, cut, send on, read, compare."""
        sender = self._sender
        sender.open()
        try:
            self._send_until(lambda: bool(self._answered_s), FIRST_S, "take a first record")
            until_s = time.monotonic() + self._cut_after_s
            self._send_until(lambda: time.monotonic() >= until_s, self._cut_after_s + FIRST_S, "be sent to")
            self._platform.kill(0)
            self._killed_s = time.monotonic()
            heard_s = self._hear_what_was_answered()
            self._send_until(self._is_back, BACK_S, "answer again after the cut")
            until_s = time.monotonic() + GOES_ON_S
            self._send_until(lambda: time.monotonic() >= until_s, GOES_ON_S + FIRST_S, "be sent to")
            sender.flush(FLUSH_S)
        finally:
            sender.close()
        while not self._platform.back(self._place):
            time.sleep(LOOK_S)  # it answers, or ProcessDied: its last records are on their way to its readers
        return self._judged(self._there(), heard_s)

    def _hear_what_was_answered(self) -> float:
        """Take in the answers that had come when the power failed; return when they were all in.

        Nothing can be answered meanwhile: a machine takes longer to start.
        """
        last_s = time.monotonic()
        while (now_s := time.monotonic()) < last_s + UNREAD_S:
            answered = len(self._answered_s)
            self._sender.poll(LOOK_S)
            if len(self._answered_s) > answered:
                last_s = now_s
        return now_s

    def _is_back(self) -> bool:
        """Return whether a record that was sent after the cut is acknowledged."""
        self._platform.check()
        last = max(self._answered_s, default=0)
        return self._sent_s[last] > self._killed_s if last else False

    def _send_until(self, over: Callable[[], bool], most_s: float, what: str) -> None:
        """Send in an open loop until it is over; NotReady when that takes too long."""
        interval_s = 1 / self._settings["rate"]
        due_s, until_s = time.monotonic(), time.monotonic() + most_s
        while not over():
            now_s = time.monotonic()
            if now_s > until_s:
                raise NotReady(f"{self._settings['platform']} did not {what} within {most_s:g} s")
            if now_s < due_s:
                self._sender.poll(min(LOOK_S, due_s - now_s))
                continue
            number = self._sent + 1
            try:
                self._sender.send(number, None, self._payload(number), time.time_ns())
            except Full:
                self._sender.poll(LOOK_S)
                continue
            self._sent, self._sent_s[number] = number, now_s
            due_s += interval_s

    def _payload(self, number: int) -> bytes:
        return number.to_bytes(8, "big") + self._filling[8:]

    def _there(self) -> Counter[int]:
        """Return how often each record is there: all that a new consumer finds, from the beginning on."""
        reader: Receiver = self._clients.receiver(self._place, self._settings, [0])
        reader.open()
        found: Counter[int] = Counter()
        try:
            began_s = last_s = time.monotonic()
            while time.monotonic() - last_s < QUIET_S:
                if time.monotonic() - began_s > READ_S:
                    raise NotReady(f"what is there could not be read within {READ_S:g} s")
                arrived = reader.poll()
                if arrived.number:
                    last_s = time.monotonic()
                for number, value in zip(arrived.number, arrived.value, strict=True):
                    found[number if value == self._payload(number) else 0] += 1
        finally:
            reader.close()
        return found

    def _judged(self, there: Counter[int], heard_s: float) -> Cut:
        cut_s = self._killed_s
        before = {number for number, at_s in self._answered_s.items() if at_s < heard_s}
        lost = sorted(before - set(there))
        after = set(self._answered_s) - before
        foreign = sum(count for number, count in there.items() if not 1 <= number <= self._sent)
        new_s = min(at_s for number, at_s in self._answered_s.items() if self._sent_s[number] > cut_s)
        return Cut(
            platform=self._settings["platform"],
            durability=self._settings["durability"],
            seed=self._seed,
            rate=self._settings["rate"],
            cut_after_s=round(self._cut_after_s, 3),
            sent=self._sent,
            acknowledged=len(before),
            lost=len(lost),
            lost_span_s=round(max(0.0, cut_s - self._answered_s[lost[0]]), 3) if lost else None,
            lost_after=len(after - set(there)),
            duplicates=sum(count - 1 for number, count in there.items() if 1 <= number <= self._sent),
            foreign=foreign,
            recovery_s=round(new_s - cut_s, 3),
        )
