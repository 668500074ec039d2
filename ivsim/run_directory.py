"""A run's directory and its manifest: where each file of a result is, and how the run was made."""

from __future__ import annotations

import json
import os
import platform
import secrets
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ivsim.options import RunOptions
from schemas.errors import Refusal

PACKAGES = (
    "paho-mqtt", "aiocoap", "pika", "confluent-kafka", "protobuf", "flatbuffers", "fastavro", "msgpack",
    "simpy", "pyspark", "pyroute2", "pyarrow", "numpy", "typer",
)  # fmt: skip
SCHEMA = 1


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
    def emission_events(self) -> Path:
        return self.path / "emissions.events"

    @property
    def emissions(self) -> Path:
        return self.path / "emissions.parquet"

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
    return f"{stamp}-{options.protocol}-{options.mode}-{secrets.token_hex(3)}"


def tag_of(run: str) -> str:
    """Return the short end of a run's name, which names its namespaces."""
    return run.rpartition("-")[2]


def make_run_directory(output: Path | None, run: str) -> RunDirectory:
    """Make the directory of a run (default `results/<run>` below the current one).

    Refusal when it exists and is not empty, or cannot be written.
    """
    path = (output if output is not None else Path("results") / run).absolute()
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


def write_json(path: Path, value: dict[str, Any], *, sort_keys: bool = True) -> None:
    """Write a JSON file whole or not at all: readers never see half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2, sort_keys=sort_keys, default=str) + "\n")
    part.replace(path)


def machine() -> dict[str, Any]:
    """Return what this machine is: cores, memory, kernel, processor."""
    return {
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "processor": _processor(),
        "system": _system(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, Java and every package that a figure may depend on."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"ivsim": metadata.version("ivsim"), "python": platform.python_version(), "java": _java(), **found}


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    return said.stderr.splitlines()[0] if said.stderr else "unknown"
