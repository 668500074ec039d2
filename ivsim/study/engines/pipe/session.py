"""Platforms that stay up over many measurements, and the files that one measurement leaves; it judges nothing."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.study.engines.pipe.ledger import FATES, Integers
from ivsim.study.engines.pipe.measurement import Measured, Measurement, Tell
from ivsim.study.engines.pipe.options import PipeOptions
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.platforms.base import OpenPlatform
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord

SAMPLES: Final = "samples.parquet"


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
        self._opened: dict[tuple[str, int], tuple[OpenPlatform, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for key in list(self._opened):
                stack.callback(self._end, key)

    def _end(self, key: tuple[str, int]) -> None:
        _, stack = self._opened.pop(key)
        stack.close()

    def open(self, name: str, brokers: int = 1) -> OpenPlatform:
        """Return a platform of so many brokers, started where it has not been; others that have some are ended first."""
        key = (name, brokers)
        if key not in self._opened:
            row = platform_named(name)
            for other in [
                one for one in self._opened if row.has_brokers and platform_named(one[0]).has_brokers
            ]:
                self._end(other)
            with ExitStack() as stack:
                opened = stack.enter_context(row.open(self._record, self._work, brokers))
                self._opened[key] = opened, stack.pop_all()
        return self._opened[key][0]

    def measure(self, options: PipeOptions, tell: Tell = lambda *_: None) -> Measured:
        """Measure once, in a place of its own on the platform; ProcessDied or NotReady when a part ended or hung.

        The next measurement has a platform that is started anew then.
        """
        key = (options.platform, options.brokers)
        opened = self.open(*key)
        name = f"pipe-{secrets.token_hex(4)}"
        measurement = Measurement(options, name, opened, self._record, work=self._work / "clients", tell=tell)
        try:
            return measurement.run()
        except (ProcessDied, NotReady):
            self._end(key)
            raise


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


def _stamps(values: Integers) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == 0)
