"""A result directory as an audit takes it: read, never written, and refused where it cannot be trusted as a source."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

# What the run's manifest says of itself; 2 is the first that keeps Kafka's records and its files' checksums.
SCHEMA: Final = 2
SUMS: Final = "SHA256SUMS"
# What the parts of a run wrote while they measured. A change to one of these leaves nothing to audit by.
SOURCES: Final = (
    "manifest.json",
    "run.json",
    "clock.json",
    "link.parquet",
    "link_proof.json",
    "emissions.events",
    "wire.events",
    "wire_messages.parquet",
    "wire_categories.parquet",
    "kafka_records.parquet",
    "live.json",
    "answers.parquet",
    "frames.pcap",
)
# Of each gateway one, and of each sender where there are several.
_SEVERAL: Final = (
    "received-*.events",
    "in-flight-*.events",
    "confirmed-*.events",
    "consumed-*.events",
    "emissions-*.events",
)
# Without these no run is a result.
_NEEDED: Final = (
    "manifest.json",
    "metrics.json",
    "run.json",
    "ledger.parquet",
    "link.parquet",
    "report.html",
)
# Topologies whose way ends before the twin.
_ENDS: Final = {"ingest": "consumer", "echo": "receiver", "peer": "peer"}
# Topology in which gateways stand with the vehicles, before the link.
_EDGE: Final = "edge"
_KEYS: Final = ("run", "options", "start_at_ns")
_USED_OPTIONS: Final = {
    "topology": str, "protocol": str, "mode": str, "format": str, "vehicles": int, "interval_s": float, "duration_s": float,
    "warmup_s": float, "loss_timeout_s": float, "future_tolerance_s": float, "seed": int, "pcap": bool,
}  # fmt: skip


class BadResult(Exception):  # noqa: N818 - what was found
    """A directory that cannot be audited; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Terms:
    """What was asked of a run, as far as its figures depend on it; the manifest says it.

    Attributes:
        end: where a message is delivered: in the `twin`, at the `consumer` of a platform, at the `receiver` beside its vehicle, or
            at the `peer`, by its word.
        start_at_ns: when second 0 began.
        stages: (duration_s, vehicles that send at its begin, and at its end) of each; none: all send throughout.
        interval_ns, duration_ns: between two messages of a vehicle, and in which messages were due.
        loss_timeout_ns: after emission; what is received later is late.
        future_tolerance_ns: how far a record's stamps may be ahead of Kafka's.
        edge: the link is between gateways and Kafka.
        share: (K, N): the run sent for each Nth vehicle from the Kth on, others sent for the others.
    """

    end: str
    start_at_ns: int
    vehicles: int
    seed: int
    interval_ns: int
    duration_ns: int
    loss_timeout_ns: int
    future_tolerance_ns: int
    warmup_s: float
    stages: tuple[tuple[float, int, int], ...] = ()
    edge: bool = False
    share: tuple[int, int] = (1, 1)

    @property
    def numbers(self) -> range:
        """Return the numbers of the vehicles that the run sent for."""
        first, step = self.share
        return range(first, self.vehicles + 1, step)

    @property
    def arrival(self) -> str:
        """Return the stamp of a message that has come to the other end of the link, by which it is late or not."""
        if self.end == "peer":
            return "acknowledged_at_ns"
        return "appended_at_ns" if self.edge else "received_at_ns"

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Terms:
        """Return the terms in a manifest."""
        options = manifest["options"]
        return cls(
            end=_ENDS.get(options["topology"], "twin"),
            edge=options["topology"] == _EDGE,
            start_at_ns=manifest["start_at_ns"],
            vehicles=options["vehicles"],
            seed=options["seed"],
            interval_ns=round(options["interval_s"] * 1e9),
            duration_ns=round(options["duration_s"] * 1e9),
            loss_timeout_ns=round(options["loss_timeout_s"] * 1e9),
            future_tolerance_ns=int(options["future_tolerance_s"] * 1e9),
            warmup_s=options["warmup_s"],
            stages=tuple((length_s, begin, end) for length_s, begin, end in options.get("stages", ())),
            share=_share(options.get("share") or "1/1"),
        )


def _share(text: str) -> tuple[int, int]:
    first, _, step = text.partition("/")
    return int(first), int(step)


@dataclass(frozen=True)
class Result:
    """A result directory whose sources are as the run left them."""

    path: Path
    manifest: dict[str, Any]
    terms: Terms

    @property
    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = self.manifest["options"]
        return found

    def file(self, name: str) -> Path:
        """Return the path of a file that may be missing."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Say whether the run kept that file."""
        return (self.path / name).is_file()

    def json(self, name: str) -> dict[str, Any]:
        """Return an object; BadResult when it is none."""
        return read_json(self.path / name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a Parquet file; none where the run has no such file. BadResult when it is cut off or another thing."""
        if not self.has(name):
            return []
        with reading(self.path / name):
            return pq.read_table(self.path / name).to_pylist()  # type: ignore[no-any-return]

    def in_order(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a Parquet file in its order; none where the run has no such file."""
        if not self.has(name):
            return
        path = self.path / name
        with reading(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()

    def metadata(self, name: str) -> dict[bytes, bytes]:
        """Return what a Parquet file says of itself; nothing where the run has no such file."""
        if not self.has(name):
            return {}
        with reading(self.path / name):
            return pq.read_schema(self.path / name).metadata or {}

    @cached_property
    def purposes(self) -> list[dict[str, Any]]:
        """Return the bytes by purpose: the rows of wire_categories.parquet."""
        return self.rows("wire_categories.parquet")

    @cached_property
    def emission_logs(self) -> list[Path]:
        """Return the senders' own logs."""
        return sorted(self.path.glob("emissions*.events"))

    @cached_property
    def in_flight_logs(self) -> list[Path]:
        """Return what gateways noted of requests without an answer when they ended."""
        return sorted(self.path.glob("in-flight-*.events"))

    @cached_property
    def confirmed_logs(self) -> list[Path]:
        """Return what gateways noted of the platform's confirmations."""
        return sorted(self.path.glob("confirmed-*.events"))

    @cached_property
    def consumed_logs(self) -> list[Path]:
        """Return what the consumer noted of the platform's records."""
        return sorted(self.path.glob("consumed-*.events"))

    @cached_property
    def consumed_whole(self) -> bool:
        """Say whether the consumer came to the platform's end."""
        return bool((self.json("run.json").get("consumer") or {}).get("complete"))

    @cached_property
    def receive_logs(self) -> list[Path]:
        """Return the gateways' own logs."""
        return sorted(self.path.glob("received-*.events"))


def read_result(path: Path) -> Result:
    """Return the result in a directory; BadResult names the file that stands in the way."""
    if not path.is_dir():
        raise BadResult(f"{path}: no directory")
    manifest_file = path / "manifest.json"
    if not manifest_file.is_file():
        raise BadResult(f"{path}: no result of a run: manifest.json is missing")
    manifest = read_json(manifest_file)
    if manifest.get("schema") != SCHEMA:
        raise BadResult(f"{manifest_file}: schema {manifest.get('schema')!r}: this version audits {SCHEMA}")
    for name in (*_NEEDED, SUMS):
        if not (path / name).is_file():
            raise BadResult(
                f"{path / name}: missing; the run did not come to its end, or the file was removed"
            )
    _check_sums(path)
    _check_manifest(manifest_file, manifest)
    result = Result(path, manifest, Terms.of(manifest))
    if result.terms.end == "twin" and not result.has("kafka_records.parquet"):
        raise BadResult(f"{path / 'kafka_records.parquet'}: missing; the run could not read Kafka at its end")
    if manifest["options"]["pcap"] and not result.has("frames.pcap"):
        raise BadResult(f"{path / 'frames.pcap'}: missing, and the run was made with --pcap")
    return result


def _check_sums(path: Path) -> None:
    """Refuse when a source is not the one that the run wrote."""
    said = _read_sums(path / SUMS)
    several = [file for pattern in _SEVERAL for file in sorted(path.glob(pattern))]
    sources = [*(path / name for name in SOURCES), *several]
    for file in sources:
        if not file.is_file():
            if file.name in said:
                raise BadResult(f"{file}: missing; the run wrote one ({SUMS})")
            continue
        if file.name not in said:
            raise BadResult(f"{file}: not in {SUMS}; the run did not write it")
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != said[file.name]:
            raise BadResult(f"{file}: changed since the run wrote it ({SUMS})")
    gone = [
        name
        for name in said
        if any(fnmatch(name, pattern) for pattern in _SEVERAL) and not (path / name).is_file()
    ]
    if gone:
        raise BadResult(f"{path / gone[0]}: missing; the run wrote one ({SUMS})")


def _read_sums(path: Path) -> dict[str, str]:
    said = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError:
        raise BadResult(f"{path}: no text") from None
    for number, line in enumerate(lines, 1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name:
            raise BadResult(f"{path}: line {number}: not a sha256 sum and a name")
        said[name] = digest
    return said


def _check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    for key in _KEYS:
        if key not in manifest:
            raise BadResult(f"{path}: {key}: missing")
    options = manifest["options"]
    if not isinstance(options, dict):
        raise BadResult(f"{path}: options: no object")
    for key, kind in _USED_OPTIONS.items():
        value = options.get(key)
        right = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not right or (kind is not bool and isinstance(value, bool)):
            raise BadResult(f"{path}: options.{key}: {value!r}: must be {kind.__name__}")
    if not isinstance(manifest["start_at_ns"], int):
        raise BadResult(f"{path}: start_at_ns: must be an integer")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; BadResult when it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadResult(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadResult(f"{path}: no JSON object")
    return found


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within, a Parquet file that is cut off or another thing is a BadResult."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise BadResult(f"{path}: no whole Parquet file: {str(error).splitlines()[0]}") from None
