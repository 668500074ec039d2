"""A run's directory and its manifest: where each file of a result is, and how the run was made."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import Refusal

if TYPE_CHECKING:  # a third of a second, which a command that looks for a result need not wait
    from ivsim.options import RunOptions

# 2: kafka_records.parquet and SHA256SUMS are there, and link.parquet has everything the certificate was made from.
SCHEMA = 2
# Below the current directory.
RESULTS = Path("results")


@dataclass(frozen=True)
class RunDirectory:
    """The paths of one result; `path` exists and is this run's own."""

    path: Path

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.json"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.parquet"

    @property
    def link(self) -> Path:
        return self.path / "link.parquet"

    @property
    def link_proof(self) -> Path:
        return self.path / "link_proof.json"

    def emission_log(self, shard: int = 0, shards: int = 1) -> Path:
        """Return where a sender writes its log: the only one, or number `shard` (from 0) of several."""
        return self.path / ("emissions.events" if shards == 1 else f"emissions-{shard}.events")

    def emission_logs(self) -> list[Path]:
        """Return the logs that the senders of the run have written; a sender that never began has none."""
        return sorted(self.path.glob("emissions*.events"))

    def decision_log(self, gateway: int) -> Path:
        """Return where a gateway writes how its batches are chosen, where they are."""
        return self.path / f"decisions-{gateway}.jsonl"

    @property
    def emissions(self) -> Path:
        return self.path / "emissions.parquet"

    @property
    def snapshot(self) -> Path:
        """What the living parts of the run alone knew; written whole when all tables of its logs are there."""
        return self.path / "run.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def kafka_records(self) -> Path:
        return self.path / "kafka_records.parquet"

    @property
    def pcap(self) -> Path:
        return self.path / "frames.pcap"

    @property
    def sums(self) -> Path:
        return self.path / "SHA256SUMS"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def work(self) -> Path:
        """Scratch of the servers (Kafka's log, Spark's checkpoint); removed when the run ends."""
        return self.path / "work"


def new_run_id(options: RunOptions) -> str:
    """Return a name no other run has: when, what, and three random bytes in hexadecimal, its tag."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    what = f"{options.protocol}-{options.mode}" if options.mix is None else "mix"
    return f"{stamp}-{what}-{secrets.token_hex(3)}"


def tag_of(run: str) -> str:
    """Return the short end of a run's name, which names its namespaces."""
    return run.rpartition("-")[2]


def run_path(output: Path | None, run: str, name: str | None) -> Path:
    """Return where a run's result goes: `output`, or below `results` by its name, or by the one no other run has.

    Refusal for a name that is taken, or that goes somewhere else.
    """
    if name is None:
        return (output if output is not None else RESULTS / run).absolute()
    if output is not None:
        raise Refusal(f"--name {name}: is the result's directory below {RESULTS}; not with --output {output}")
    path = (RESULTS / name).absolute()
    if path.exists() or path.is_symlink():
        raise Refusal(f"--name {name}: {path} exists; take another name, or remove it")
    return path


def make_run_directory(output: Path | None, run: str, name: str | None = None) -> RunDirectory:
    """Make the directory of a run (default `results/<run>` below the current one).

    Refusal when it exists and is not empty, or cannot be written.
    """
    path = run_path(output, run, name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"--output {path}: {error.strerror or error}") from None
    if any(path.iterdir()):
        raise Refusal(f"--output {path}: not empty; name a new directory")
    if not os.access(path, os.W_OK):
        raise Refusal(f"--output {path}: cannot be written")
    directory = RunDirectory(path)
    directory.logs.mkdir()
    directory.work.mkdir()
    return directory
