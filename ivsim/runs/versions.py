"""What a result was made with: the machine, and the versions of everything that a figure may depend on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from gateways.protocols import PROTOCOLS
from gateways.sinks import SINKS
from ivsim.runs.host import host
from ivsim.testbed.servers import SERVERS
from schemas.plugins import installed

PACKAGES = (
    "confluent-kafka", "protobuf", "flatbuffers", "fastavro", "msgpack",
    "simpy", "pyspark", "pyroute2", "pyarrow", "numpy", "typer",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """Return `machine`, `host` and `versions` as a manifest has them."""
    return {"machine": machine(), "host": host(), "versions": versions()}


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
    """Return the versions of Python, Java, the servers and every package that a figure may depend on, plug-ins' too."""
    found = {name: metadata.version(name) for name in (*PACKAGES, *_protocol_packages())}
    clients = {sink.package: metadata.version(sink.package) for sink in SINKS.values() if sink.lack() is None}
    servers = {kind.name: version for kind in SERVERS.values() if (version := kind.version()) is not None}
    own = {"ivsim": metadata.version("ivsim"), "python": platform.python_version(), "java": _java()}
    plugins = {plugin.package: plugin.version for plugin in installed()}
    return {**own, **found, **clients, **servers, **plugins}


def _protocol_packages() -> list[str]:
    return [package for protocol in PROTOCOLS.values() for package in protocol.packages]


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
