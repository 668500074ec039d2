"""The capture process at the vehicles' end (`python -m simulator.capture.process`); it changes no packet."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from schemas.config import read_config
from schemas.control import Lines, command, emit, on_sigterm
from schemas.errors import Refusal
from schemas.without_pandas import without_pandas
from simulator.capture import pcap
from simulator.capture.attribution import AttributionOptions, Attributor
from simulator.capture.counting import COUNTS, Counter
from simulator.capture.fields import DIRECTIONS, MIN_SNAP_BYTES, Frames
from simulator.capture.packet_ring import PacketRing
from simulator.capture.second_log import SecondLog, to_table
from simulator.capture.tables import ATTRIBUTED_ENDS, categories_table, handshakes_table, messages_table

LOG_NAME, TABLE_NAME = "wire.events", "wire.parquet"
MESSAGES_NAME, CATEGORIES_NAME = "wire_messages.parquet", "wire_categories.parquet"
HANDSHAKES_NAME = "wire_handshakes.parquet"
_PROGRESS_S = 0.5
_POLL_MS = 100
_SHOWN = ("packets", "ip_bytes", "link_bytes", "super_frames")


class CaptureConfig(BaseModel):
    """What a capture is told; keys beyond these are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    device: str = Field(min_length=1, max_length=15)
    run_dir: str
    ring_mib: int = Field(default=64, ge=2, le=1024)
    pcap: str | None = None
    snap_bytes: int = Field(default=65_535, ge=MIN_SNAP_BYTES, le=262_144)
    # Whose bytes are attributed to messages, by number: about ten times the work of counting. None: everybody's.
    attributed_ends: list[int] | None = None
    datagram_ports: dict[str, list[int]] = {}
    probe_ports: list[int] = []
    echo: bool = False

    def attribution(self) -> AttributionOptions:
        """Return what the attribution is told."""
        return AttributionOptions(self.datagram_ports, tuple(self.probe_ports), self.echo)


class Owner:
    """The owner's end of standard input: commands as they come, and whether it is gone."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self.file = file
        self.gone = False
        self._lines = Lines()

    def commands(self) -> list[dict[str, Any]]:
        """Return the commands that have arrived; end of file means that the owner has died or closed."""
        try:
            data = os.read(self.file, 65_536)
        except BlockingIOError:
            return []
        self.gone = not data
        lines = self._lines.cut(data)
        return [found for line in lines if (found := command(line, ("start", "stop"))) is not None]


class Capture:
    """One capture: ring to counter to log, until it is told to stop."""

    def __init__(self, config: CaptureConfig, stack: ExitStack) -> None:
        run_dir = Path(config.run_dir)
        self._config = config
        self._run_dir = run_dir
        self._log_path = run_dir / LOG_NAME
        self._ring = stack.enter_context(PacketRing(config.device, config.ring_mib))
        self._log = stack.enter_context(SecondLog(self._log_path))
        self._pcap = None
        if config.pcap:
            self._pcap = stack.enter_context(Path(config.pcap).open("wb"))  # noqa: SIM115 - the stack closes it
            pcap.write_header(self._pcap, config.snap_bytes)
        self._counter = Counter()
        ends = config.attributed_ends
        self._attributor = None if ends == [] else Attributor(config.attribution(), directory=run_dir)
        self._ends = None if ends is None else np.array(ends, np.int64)
        # Copied out of the ring and counted, not yet attributed: a slow attribution costs memory, not frames.
        self._backlog: deque[Frames] = deque()
        self._totals = np.zeros((len(DIRECTIONS), len(COUNTS)), np.int64)
        self.stopping = False

    def run(self, owner: Owner) -> dict[str, Any]:
        """Capture until stopped; write the table; return the totals for the last event."""
        poller = select.poll()
        poller.register(self._ring.fileno(), select.POLLIN)
        poller.register(owner.file, select.POLLIN | select.POLLHUP)
        due = time.monotonic() + _PROGRESS_S
        while not (self.stopping or owner.gone):
            ready = poller.poll(0 if self._backlog else _POLL_MS)
            if any(file == owner.file for file, _ in ready):
                self._obey(owner.commands())
            self._drain()
            self._attribute()
            if time.monotonic() >= due:
                due = time.monotonic() + _PROGRESS_S
                emit("progress", **self._flush())
        return self._finish()

    def _obey(self, commands: list[dict[str, Any]]) -> None:
        for given in commands:
            match given:
                case {"command": "start", "at_ns": int(at_ns)}:
                    # Stamps decide the phase of frames still in the ring: this command may be read late.
                    self._counter.start_at_ns = at_ns
                    if self._attributor is not None:
                        self._attributor.start_at_ns = at_ns
                case {"command": "stop"}:
                    self.stopping = True
                case _:
                    raise Refusal(f"capture: command {given!r}: start needs at_ns, an integer")

    def _drain(self) -> None:
        for frames in self._ring.batches():
            self._take(frames)

    def _take(self, frames: Frames) -> None:
        fields = self._counter.add(frames)
        if self._attributor is not None and fields is not None:
            self._backlog.append(frames if self._ends is None else frames.chosen(fields.of(self._ends)))
        if self._pcap is not None:
            self._pcap.write(pcap.records(frames, self._config.snap_bytes))

    def _attribute(self) -> None:
        """Attribute one batch, no more: the ring comes first."""
        if self._backlog and self._attributor is not None:
            self._attributor.add(self._backlog.popleft())

    def _flush(self) -> dict[str, Any]:
        gained = self._counter.take()
        self._log.append(gained)
        np.add.at(self._totals, gained["direction"], gained["counts"])
        return self._figures()

    def _figures(self) -> dict[str, Any]:
        shown = {name: self._totals[:, COUNTS.index(name)].tolist() for name in _SHOWN}
        by_way = {way: {name: shown[name][code] for name in _SHOWN} for code, way in enumerate(DIRECTIONS)}
        return {**by_way, "kernel_drops": self._ring.update_drops(), "backlog_batches": len(self._backlog)}

    def _finish(self) -> dict[str, Any]:
        # The kernel retires a half-filled block after 50 ms: two rounds get the last frames out.
        for _ in range(2):
            select.select([self._ring], [], [], 0.06)
            self._drain()
        figures = self._flush()
        drops = figures["kernel_drops"]
        files = {"wire": self._write(TABLE_NAME, to_table(self._log_path), drops)}
        notes = {}
        if self._attributor is not None:
            while self._backlog:
                self._attribute()
            notes = self._attributor.finish()
            totals = self._attributor.totals
            ends = {ATTRIBUTED_ENDS: json.dumps(self._config.attributed_ends).encode()}
            files["messages"] = self._write(MESSAGES_NAME, messages_table(totals), drops, ends)
            files["categories"] = self._write(CATEGORIES_NAME, categories_table(totals), drops, ends)
            files["handshakes"] = self._write(HANDSHAKES_NAME, handshakes_table(totals), drops, ends)
        return {**figures, **notes, **files, "complete": drops == 0}

    def _write(
        self, name: str, table: pa.Table, drops: int, more: Mapping[bytes, bytes] | None = None
    ) -> str:
        """Write a table that says of itself whether frames are missing, and whose they are; return its path."""
        metadata = {b"kernel_drops": str(drops).encode(), b"complete": str(drops == 0).lower().encode()}
        metadata |= more or {}
        path = self._run_dir / name
        pq.write_table(table.replace_schema_metadata(metadata), path)
        return str(path)


def main(arguments: list[str]) -> int:
    """Run a capture; 0 when it was stopped in order, 2 for bad input."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m simulator.capture.process CONFIG.json\n")
        return 2
    try:
        config = read_config(arguments[0], CaptureConfig)
        with without_pandas(), ExitStack() as stack:
            capture = Capture(config, stack)
            on_sigterm(lambda: setattr(capture, "stopping", True))
            emit("ready", device=config.device)
            figures = capture.run(Owner(sys.stdin.fileno()))
            emit("done", **figures)
    except (Refusal, ValueError, TypeError) as error:
        emit("error", message=str(error))
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
