"""The process of one client library: measures what it is told, one after another, until it is told to stop.

`python -m ivsim.study.engines.pipe.client_loops.worker MODULE`
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ivsim.study.engines.pipe.client_loops.loops import LOOP_OF, Work, bare, made_values
from ivsim.study.engines.pipe.client_loops.usage import Usage
from schemas.control import commands, emit


def main() -> None:
    """Speak on standard input and output; the end of the file means stop."""
    began_ns = time.perf_counter_ns()
    module = import_module(sys.argv[1])
    emit("ready", import_ms=(time.perf_counter_ns() - began_ns) / 1e6)
    for command in commands():
        if command["command"] == "stop":
            break
        try:
            emit("measured", **measured(module, command))
        except Exception as error:  # noqa: BLE001 - whatever a library raises is why the cell failed
            emit("measured", failure=f"{type(error).__name__}: {error}")
    emit("done")


def measured(module: ModuleType, command: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one measurement; latencies go to the file that it names."""
    usage = Usage(command["platform"])
    work = Work(
        module,
        command["place"],
        command["settings"],
        command["messages"],
        command["warmup"],
        made_values(command["seed"], command["bytes"], command["messages"]),
        usage,
    )
    loop = bare if command["path"] == "bare" else LOOP_OF[command["loop"]]
    found = loop(work)
    Path(command["out"]).write_bytes(found.latency_ns.tobytes())
    return {"figures": {**found.figures, "resident_mib": usage.resident_mib()}}


if __name__ == "__main__":
    main()
