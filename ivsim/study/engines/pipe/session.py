"""Platforms that stay up over many measurements, and the files that one measurement leaves; it judges nothing."""

from __future__ import annotations

import json
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.study.engines.pipe.kills import BROKER
from ivsim.study.engines.pipe.ledger import FATES, Integers
from ivsim.study.engines.pipe.measured import Measured
from ivsim.study.engines.pipe.measurement import Measurement, Tell, modules_of
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import FIXED, PipeOptions
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.platforms.base import LOOPBACK, OpenPlatform
from ivsim.study.engines.pipe.site import Site
from ivsim.testbed.forked import ForkServer
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from simulator.links import LinkError

SAMPLES: Final = "samples.parquet"
LINK: Final = "link.parquet"
DECISIONS: Final = "decisions.jsonl"
# How long a platform that was just started works before anything is measured: Java compiles meanwhile.
BREAK_IN_S: Final = 6.0


class _Key(NamedTuple):
    """What two measurements must have alike to stand on one platform."""

    platform: str
    brokers: int
    link: str | None
    durability: str | None


def key_of(options: PipeOptions) -> _Key:
    """Return what another measurement must have alike to stand on the same platform."""
    durability = options.durability if platform_named(options.platform).restarts_to_sync else None
    return _Key(options.platform, options.brokers, options.link, durability)


class _Origin(NamedTuple):
    """What producers and consumers of one server have alike: what it imported, and the seed of their repetition.

    With another seed comes another server, for all that it forks have its order of sets and its addresses.
    """

    modules: tuple[str, ...]
    seed: int


class _Open(NamedTuple):
    platform: OpenPlatform
    site: Site | None
    stack: ExitStack


class Platforms:
    """The platforms that were asked for; a context manager that ends them.

    One with brokers is up at a time: another's would take memory and CPU time from the one that is measured.

    Args:
        record: of the run.
        work: scratch directory.
    """

    def __init__(self, record: RunRecord, work: Path) -> None:
        self._record = record
        self._work = work
        self._opened: dict[_Key, _Open] = {}
        self._new: set[_Key] = set()
        self._forks: tuple[_Origin, ForkServer] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(self._end_forks)
            for key in list(self._opened):
                stack.callback(self._end, key)

    def _end(self, key: _Key) -> None:
        self._new.discard(key)
        self._opened.pop(key).stack.close()

    def _end_forks(self) -> None:
        if self._forks is not None:
            self._forks[1].stop()
            self._forks = None

    def _forks_for(self, options: PipeOptions) -> ForkServer:
        """Return what starts producers and consumers; one is up at a time."""
        origin = _Origin(modules_of(options), options.seed)
        if self._forks is None or self._forks[0] != origin or not self._forks[1].running():
            self._end_forks()
            name = f"forks-{secrets.token_hex(4)}"
            self._forks = (origin, ForkServer(name, origin.modules, self._record))
        return self._forks[1]

    def open(self, options: PipeOptions) -> _Open:
        """Return the platform that a measurement asks for, started where it has not been, on its link if it has one.

        Others that have brokers are ended first.
        """
        key = key_of(options)
        if key not in self._opened:
            row = platform_named(key.platform)
            for other in [
                one for one in self._opened if row.has_brokers and platform_named(one.platform).has_brokers
            ]:
                self._end(other)
            with ExitStack() as stack:
                site = None if key.link is None else stack.enter_context(Site(key.link, self._record))
                host = LOOPBACK if site is None else site.host
                opened = stack.enter_context(row.open(self._record, self._work, key.brokers, host))
                self._opened[key] = _Open(opened, site, stack.pop_all())
                self._new.add(key)
        return self._opened[key]

    def break_in(self, options: PipeOptions) -> None:
        """Let a platform that was just started do a measurement's work for a while, which is dropped.

        A cell that happens to come first would have its first seconds otherwise; one measured already is left alone.
        """
        key = key_of(options)
        self.open(options)
        if key in self._new and platform_named(key.platform).has_brokers:
            work = {"duration_s": BREAK_IN_S, "warmup_s": 0.0, "kill": None, "load_ratio": None}
            self.measure(options.model_copy(update=work))

    def measure(
        self, options: PipeOptions, tell: Tell = lambda *_: None, *, accounts_stopped: bool = False
    ) -> Measured:
        """Measure once, in a place of its own on the platform; ProcessDied or NotReady when a client ended or a part hung.

        The next measurement has a platform that is started anew then. `accounts_stopped` as of `Measurement`. Where the rate
        is a share of the capacity, that is measured first.
        """
        if options.load_ratio is not None and options.rate is None:
            capacity_per_s = self.full_speed_per_s(options, tell)
            rate = {"rate": options.load_ratio * capacity_per_s}
            found = self.measure(options.model_copy(update=rate), tell, accounts_stopped=accounts_stopped)
            found.capacity_per_s = capacity_per_s
            return found
        return self._measure(options, tell, accounts_stopped=accounts_stopped)

    def full_speed_per_s(self, options: PipeOptions, tell: Tell = lambda *_: None) -> float:
        """Return the records/s that come through when each waits for room; NotReady where none do, or not validly."""
        full_speed = {"load_ratio": None, "batching": FIXED, "kill": None}
        found = figures_of(self._measure(options.model_copy(update=full_speed), tell))
        speed, validity = found["records_per_s"], found["validity"]
        if validity["verdict"] != "valid":
            why = "; ".join(cause["words"] for cause in validity["causes"])
            raise NotReady(f"at full speed the measurement is {validity['verdict']}: {why}")
        if not speed:
            raise NotReady("nothing came through at full speed: there is no share of it")
        return float(speed)

    def _measure(self, options: PipeOptions, tell: Tell, *, accounts_stopped: bool = False) -> Measured:
        found = self.open(options)
        self._new.discard(key_of(options))
        name = f"pipe-{secrets.token_hex(4)}"
        measurement = Measurement(
            options,
            name,
            found.platform,
            self._record,
            self._forks_for(options),
            work=self._work / "clients",
            site=found.site,
            tell=tell,
            accounts_stopped=accounts_stopped,
        )
        try:
            measured = measurement.run()
        except (ProcessDied, NotReady, LinkError) as error:
            self._end(key_of(options))
            if isinstance(error, LinkError):
                raise NotReady(f"link: {error}") from error
            raise
        # One that owes answers or records may live and serve no more, as a Pulsar whose bookie has died. What came in place
        # of one that was killed has not been broken in: Kafka's latency at 1,000 records/s was 565 ms there, 2 ms else.
        killed = measured.killed is not None and measured.killed.role == BROKER
        if killed or measured.died is not None or not (measured.answered and measured.complete):
            self._end(key_of(options))
        return measured


def write_samples(found: Measured, path: Path) -> None:
    """Write one row a record: number, stamps (null where there is none), partition, payload, fate."""
    ledger, of = found.ledger, found.ledger.produced
    fates = pa.DictionaryArray.from_arrays(pa.array(ledger.fate.astype(np.int8)), pa.array(FATES))
    columns: dict[str, Any] = {
        "number": of.number,
        "due_at_ns": of.due_at_ns,
        "emitted_at_ns": _stamps(of.emitted_at_ns),
        "acknowledged_at_ns": _stamps(of.acknowledged_at_ns),
        "received_at_ns": _stamps(ledger.received_at_ns),
        "partition": pa.array(ledger.partition, pa.int32(), mask=ledger.partition < 0),
        "payload_bytes": pa.array(of.payload_bytes, pa.int32()),
        "fate": fates,
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def write_link(found: Measured, path: Path) -> None:
    """Write what the link between producers and platform did, as a run's link.parquet has it; nothing without one."""
    if found.crossed is not None:
        pq.write_table(found.crossed.rows, path, compression="zstd")


def write_decisions(found: Measured, path: Path) -> None:
    """Write a line of JSON for each choice of a batch setting, with the producer that made it; nothing without one."""
    rows = [
        {"producer": index, **row}
        for index, one in enumerate(found.producers)
        for row in one.get("decisions", [])
    ]
    if rows:
        path.write_text("".join(f"{json.dumps(row, allow_nan=False)}\n" for row in rows))


def _stamps(values: Integers) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == 0)
