"""A producer's process, forked of one that has imported this module (`ivsim.testbed.forked`).

At a rate it is an open loop: each record has a due time, fixed before, and is sent then or as soon after as the loop and
the library let it, whatever became of the others. Without a rate it sends as fast as it goes, held up by the library's
full queue alone; such a record is due when it is sent, and nothing is called a latency.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import process_time_ns, thread_time_ns, time_ns
from typing import Any, Final

from ivsim.study.engines.pipe import columns as kept
from ivsim.study.engines.pipe.arrivals import due_of, most_due
from ivsim.study.engines.pipe.idioms import codec_of, contents
from ivsim.study.engines.pipe.platforms.base import Choosing, Full, Refused, Report, Sender
from ivsim.study.engines.pipe.row_codecs import Codec
from ivsim.study.engines.pipe.stages import EVERY, Stages, peak_kib
from ivsim.study.engines.pipe.talk import Commands, configuration
from schemas.control import emit

# What each record has, in the order of the file; 0 for a stamp that is not there.
COLUMNS: Final = ("due_at_ns", "emitted_at_ns", "acknowledged_at_ns", "payload_bytes", "refused")
KEYS: Final = 1_000
# Room for so many acknowledgements is made at a time.
BLOCK: Final = 4_096
NO_STAMPS: Final = bytes(8 * BLOCK)
FULL_WAIT_S: Final = 0.01
POLL_EVERY: Final = 64
COARSE_NS: Final = 2_000_000
FINE_NS: Final = 60_000  # a sleep ends about so late
SAY_EVERY_NS: Final = 250_000_000
FLUSH_S: Final = 30.0


class Producer:
    """One producer of several; number k of producer i is 1 + i + k * producers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._settings: dict[str, Any] = config["settings"]
        self._index: int = config["index"]
        self._out = Path(config["out"])
        self._producers: int = self._settings["producers"]
        self._outlives: bool = config["outlives"]
        self._columns: dict[str, Any] = (
            kept.MappedColumns(
                self._out, COLUMNS, most_due(self._settings, self._index), "payload_bytes"
            ).columns
            if self._outlives
            else {name: array("q") for name in COLUMNS}
        )
        # place -> why: hardly any
        self._refused: dict[int, str] = {}
        self._marks: dict[str, int] = {}
        self._full = 0
        clients = import_module(config["clients"])
        self._sender: Sender = clients.sender(config["place"], self._settings, self._index, self._reporting())
        self._codec = codec_of(self._settings["record"], self._settings["format"], config["registry"])
        self._contents = self._prepared()
        self._most_records = self._room(config.get("most_bytes"))
        self._stages = Stages("build", "encode", "produce")

    def _prepared(self) -> list[Any]:
        """Return what the loop takes in turn: contents, what they are built to, or payloads."""
        settings = self._settings
        found = contents(settings["record"], settings["different"], settings["seed"] + self._index)
        build = self._codec.build
        if settings["content"] != "built" and build is not None:
            found = [build(one) for one in found]
        return [self._codec.encode(one) for one in found] if settings["content"] == "encoded" else found

    def _room(self, most_bytes: float | None) -> int:
        """Return how many records may be sent: as many of the largest as the bytes hold, where they are limited."""
        if most_bytes is None:
            return sys.maxsize
        build, encode = _work(self._codec, self._settings["content"])
        built = self._contents if build is None else map(build, self._contents)
        return int(most_bytes // max(map(len, built if encode is None else map(encode, built))))

    def _reporting(self) -> Report:
        """Return what takes delivery reports."""
        acknowledged, refuse = self._columns["acknowledged_at_ns"], self._refuse
        first, step = 1 + self._index, self._producers

        def report(number: int, problem: str | None) -> None:
            if problem is None:
                acknowledged[(number - first) // step] = time_ns()
            else:
                refuse((number - first) // step, problem)

        return report

    def _refuse(self, place: int, problem: str) -> None:
        self._refused[place] = problem
        if self._outlives:
            self._columns["refused"][place] = 1

    def run(self) -> None:
        """Send until it is over or stopped, then write what became of every record."""
        commands = Commands()
        self._sender.open()
        try:
            emit("ready")
            start = commands.wait_for("start")
            if start is None:
                return
            self._send(start, commands)
            ended_at_ns = time_ns()
            left = self._sender.flush(FLUSH_S)
            self._mark("end")
            self._write()
            emit("done", **self._said(ended_at_ns, left))
        finally:
            self._sender.close()

    def _send(self, start: dict[str, Any], commands: Commands) -> None:
        settings = self._settings
        start_at_ns: int = start["start_at_ns"]
        warm_at_ns = start_at_ns + round(settings["warmup_s"] * 1e9)
        end_at_ns = start_at_ns + round(settings["duration_s"] * 1e9)
        rate = settings["rate"]
        offset_ns = None if rate is None else due_of(settings, self._index)
        self._wait(start_at_ns, lambda: None)
        take = self._taker()
        stopped = commands.stopped
        sender = self._sender
        # One that was started in the place of another goes on behind what that had made.
        place, told_at_ns, warm = len(self._columns["due_at_ns"]), start_at_ns, False
        most_records = self._most_records
        while place < most_records and not stopped.is_set():
            due_at_ns = time_ns() if offset_ns is None else start_at_ns + round(offset_ns(place))
            if due_at_ns >= end_at_ns:
                break
            if offset_ns is not None:
                self._wait(due_at_ns, stopped.is_set)
                if stopped.is_set():
                    break  # it is not due yet
            elif place % POLL_EVERY == 0:
                sender.poll(0)
            if not warm and due_at_ns >= warm_at_ns:
                warm = True
                self._mark("warm")
            take(place, due_at_ns, warm and place % EVERY == 0)
            place += 1
            if due_at_ns - told_at_ns > SAY_EVERY_NS:
                told_at_ns = due_at_ns
                emit("progress", sent=place)

    def _wait(self, until_ns: int, stop: Callable[[], Any]) -> None:
        """Return at a time, and see to delivery reports until then."""
        poll = self._sender.poll
        while (left_ns := until_ns - time_ns()) > 0 and not stop():
            if left_ns > COARSE_NS:
                # A library that counts in milliseconds: it must not come back late.
                poll(min(left_ns - COARSE_NS, 100_000_000) // 1_000_000 / 1e3)
                if left_ns - COARSE_NS < 1_000_000:
                    time.sleep((left_ns - COARSE_NS) / 1e9)
                continue
            poll(0)
            left_ns = until_ns - time_ns()
            if left_ns > FINE_NS:
                time.sleep((left_ns - FINE_NS) / 1e9)
        poll(0)

    def _mark(self, name: str) -> None:
        self._marks |= {
            f"{name}_cpu_ns": process_time_ns(),
            f"{name}_records": len(self._columns["due_at_ns"]),
            f"{name}_at_ns": time_ns(),
        }

    def _taker(self) -> Callable[[int, int, bool], None]:
        """Return what makes and sends one record; `timed` says whether its stages are taken."""
        made, each = self._contents, len(self._contents)
        stages = self._stages
        due, emitted, sizes = (
            self._columns[name].append for name in ("due_at_ns", "emitted_at_ns", "payload_bytes")
        )
        acknowledged = self._columns["acknowledged_at_ns"].frombytes
        first, step = 1 + self._index, self._producers
        keyed = self._settings["partitioner"] == "key"
        build, encode = _work(self._codec, self._settings["content"])
        send, wait, refuse = self._sender.send, self._wait_for_room, self._refuse

        def take(place: int, due_at_ns: int, timed: bool) -> None:
            found = made[place % each]
            if timed:
                found = self._timed(found, build, encode)
            else:
                if build is not None:
                    found = build(found)
                if encode is not None:
                    found = encode(found)
            key = b"v%06d" % (place % KEYS) if keyed else None
            # Before it is handed over: a report may come at once, and finds its record.
            if place % BLOCK == 0:
                acknowledged(NO_STAMPS)
            due(due_at_ns)
            emitted(time_ns())
            sizes(len(found))
            began_ns = thread_time_ns() if timed else 0
            try:
                send(first + place * step, key, found, due_at_ns)
            except Full:
                wait(place, first + place * step, key, found, due_at_ns)
            except Refused as problem:
                refuse(place, str(problem))
            if timed:
                stages.add("produce", thread_time_ns() - began_ns)

        return take

    def _timed(
        self, found: Any, build: Callable[[Any], Any] | None, encode: Callable[[Any], bytes] | None
    ) -> Any:
        """Return a payload, and take what making it costs."""
        for name, make in (("build", build), ("encode", encode)):
            if make is not None:
                began_ns = thread_time_ns()
                found = make(found)
                self._stages.add(name, thread_time_ns() - began_ns)
        return found

    def _wait_for_room(self, place: int, *record: Any) -> None:
        """Hand a record over once the library has room; it is emitted then."""
        while True:
            self._full += 1
            self._sender.poll(FULL_WAIT_S)
            try:
                self._columns["emitted_at_ns"][place] = time_ns()
                self._sender.send(*record)
            except Full:
                continue
            except Refused as problem:
                self._refuse(place, str(problem))
            return

    def _write(self) -> None:
        if self._outlives:
            return
        count = len(self._columns["due_at_ns"])
        self._columns["refused"] = array("q", bytes(8 * count))
        for place in self._refused:
            self._columns["refused"][place] = 1
        kept.write(self._out, {name: self._columns[name][:count] for name in COLUMNS})

    def _said(self, ended_at_ns: int, left: int) -> dict[str, Any]:
        return {
            "records": len(self._columns["due_at_ns"]),
            "ended_at_ns": ended_at_ns,
            "unanswered": left,
            "full": self._full,
            "room_used_up": len(self._columns["due_at_ns"]) >= self._most_records,
            "refusals": dict(Counter(self._refused.values())),
            "marks": self._marks,
            "stages_us": self._stages.means_us(),
            "statistics": dict(self._sender.statistics()),
            "decisions": self._sender.decisions if isinstance(self._sender, Choosing) else [],
            "peak_kib": peak_kib(),
        }


def _work(codec: Codec, content: str) -> tuple[Callable[[Any], Any] | None, Callable[[Any], bytes] | None]:
    """Return what is done while the clock runs."""
    if content == "encoded":
        return None, None
    return (codec.build if content == "built" else None), codec.encode


def main(arguments: list[str]) -> None:
    """Be one, as the file that is the one argument says."""
    Producer(configuration(arguments)).run()
