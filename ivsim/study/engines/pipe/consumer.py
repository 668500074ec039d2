"""A consumer's process, forked of one that has imported this module (`ivsim.testbed.forked`).

It reads its partitions from their beginning until it has reached the offsets that it is told, decodes every record and
touches every field.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from time import process_time_ns, thread_time_ns, time_ns
from typing import Any, Final

from ivsim.study.engines.pipe import columns as kept
from ivsim.study.engines.pipe.idioms import codec_of
from ivsim.study.engines.pipe.platforms.base import Arrivals, Receiver
from ivsim.study.engines.pipe.stages import Stages, peak_kib
from ivsim.study.engines.pipe.talk import Commands, configuration
from schemas.control import emit

# What each arrival has, in the order of the file.
COLUMNS: Final = ("number", "partition", "offset", "received_at_ns")
SAY_EVERY_NS: Final = 250_000_000


class Consumer:
    """One consumer of several, with partitions of its own."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._settings: dict[str, Any] = config["settings"]
        self._out = Path(config["out"])
        clients = import_module(config["clients"])
        partitions: list[int] = config["partitions"]
        self._receiver: Receiver = clients.receiver(config["place"], self._settings, partitions)
        self._codec = codec_of(self._settings["record"], self._settings["format"], config["registry"])
        self._columns = {name: array("q") for name in COLUMNS}
        self._next = dict.fromkeys(partitions, 0)
        self._resumed: bool = config["resumed"]
        self._journal = kept.Journal(self._out) if config["outlives"] else None
        self._damaged = 0
        self._marks: dict[str, int] = {}
        self._stages = Stages("fetch", "decode", "read")

    def run(self) -> None:
        """Read until the end, then write what came."""
        commands = Commands()
        self._next.update(self._receiver.open(resumed=self._resumed))
        try:
            emit("ready")
            start = commands.wait_for("start")
            if start is None:
                return
            with self._journal or nullcontext():
                complete = self._receive(start, commands)
            if self._journal is None:
                kept.write(self._out, self._columns)
            emit("done", **self._said(complete))
        finally:
            self._receiver.close()

    def _receive(self, start: dict[str, Any], commands: Commands) -> bool:
        """Return whether the offsets that were told have been reached."""
        warm_at_ns: int = start["start_at_ns"] + round(self._settings["warmup_s"] * 1e9)
        poll, stages = self._receiver.poll, self._stages
        told_at_ns, warm = 0, False
        while not commands.stopped.is_set():
            began_ns = thread_time_ns()
            arrivals = poll()
            fetched_ns = thread_time_ns()
            now_ns = time_ns()
            if arrivals.number:
                if warm:
                    stages.add("fetch", fetched_ns - began_ns, len(arrivals.number))
                self._take(arrivals, now_ns, warm)
                if not warm and now_ns >= warm_at_ns:
                    warm = True
                    self._mark("warm")
            if now_ns - told_at_ns > SAY_EVERY_NS:
                told_at_ns = now_ns
                emit("progress", received=len(self._columns["number"]))
            until = commands.said("until")
            if until is not None and self._reached(until["offsets"]):
                self._mark("end")
                return True
        self._mark("end")
        return False

    def _take(self, arrivals: Arrivals, now_ns: int, warm: bool) -> None:
        codec, stages, count = self._codec, self._stages, len(arrivals.number)
        began_ns = thread_time_ns()
        decoded = self._decoded(arrivals.value)
        decoded_ns = thread_time_ns()
        if codec.read is not None:
            for one in decoded:
                codec.read(one)
        if warm:
            stages.add("decode", decoded_ns - began_ns, count)
            if codec.read is not None:
                stages.add("read", thread_time_ns() - decoded_ns, count)
        columns = (arrivals.number, arrivals.partition, arrivals.offset, (now_ns,) * count)
        for name, values in zip(COLUMNS, columns, strict=True):
            self._columns[name].extend(values)
        # Before it says how far it has read: whoever goes on from there does not read these again.
        if self._journal is not None:
            self._journal.write(columns)
        last = dict(zip(arrivals.partition, arrivals.offset, strict=True))
        for partition, offset in last.items():
            self._next[partition] = offset + 1
        self._acknowledge(arrivals, last)

    def _acknowledge(self, arrivals: Arrivals, last: dict[int, int]) -> None:
        """Say how far it has read, as often as the settings want."""
        commit = self._settings["commit"]
        if commit == "call":
            for partition, offset in last.items():
                self._receiver.acknowledge(partition, offset)
        elif commit == "record":
            for partition, offset in zip(arrivals.partition, arrivals.offset, strict=True):
                self._receiver.acknowledge(partition, offset)

    def _decoded(self, values: Sequence[bytes]) -> list[Any]:
        """Return what can be decoded; what cannot is counted, and the measurement is invalid."""
        decode = self._codec.decode
        try:
            return [decode(value) for value in values]
        except Exception:  # noqa: BLE001 - libraries raise what they like
            return self._some_decoded(values)

    def _some_decoded(self, values: Sequence[bytes]) -> list[Any]:
        found = []
        for value in values:
            try:
                found.append(self._codec.decode(value))
            except Exception:  # noqa: BLE001 - as above
                self._damaged += 1
        return found

    def _reached(self, offsets: dict[str, int]) -> bool:
        return all(after >= offsets[str(partition)] for partition, after in self._next.items())

    def _mark(self, name: str) -> None:
        self._marks |= {
            f"{name}_cpu_ns": process_time_ns(),
            f"{name}_records": len(self._columns["number"]),
            f"{name}_at_ns": time_ns(),
        }

    def _said(self, complete: bool) -> dict[str, Any]:
        return {
            "records": len(self._columns["number"]),
            "complete": complete,
            "damaged": self._damaged,
            "marks": self._marks,
            "stages_us": self._stages.means_us(),
            "peak_kib": peak_kib(),
        }


def main(arguments: list[str]) -> None:
    """Be one, as the file that is the one argument says."""
    Consumer(configuration(arguments)).run()
