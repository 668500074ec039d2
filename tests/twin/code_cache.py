"""Serves one run after the other in one Spark, and reads from its Java how much of its code cache it has used.

For a process of its own: the session of the test process is everybody's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.twin.made_up import MadeUpRun, await_taken
from twin.config import TwinConfig
from twin.process import TwinProcess

VEHICLES, MESSAGES = 10, 100


def used_after_each(config: TwinConfig, runs: int) -> tuple[int, list[int]]:
    """Serve so many runs, below the directory of `config`; return the room for compiled code and what was used, in bytes."""
    scratch = TwinConfig(run_dir=config.run_dir, topology="echo", jars_dir=config.jars_dir)
    process, used, room = TwinProcess(scratch), [], 0
    try:
        process.open()
        for number in range(runs):
            _serve(process, _config(config, number))
            room, now = _code_cache()
            used.append(now)
            print(f"code cache after run {number + 1}: {now:,} of {room:,} bytes", flush=True)
    finally:
        process.close()
    return room, used


def _config(config: TwinConfig, number: int) -> TwinConfig:
    """Return the configuration of one run; a study goes through kinds of runs, each with queries of its own."""
    directory = Path(config.run_dir) / str(number)
    directory.mkdir()
    more = {"run_dir": str(directory), "topics_prefix": f"{config.topics_prefix}{number}."}
    return config.model_copy(update={**more, "trigger": ("realtime", "microbatch")[number % 2]})


def _serve(process: TwinProcess, config: TwinConfig) -> None:
    process.reopen(config)
    made = MadeUpRun(config)
    for sequence in range(1, MESSAGES + 1):
        for vehicle in range(1, VEHICLES + 1):
            row = made.due(vehicle, sequence)
            made.append(row, made.take(row))
    made.flush()
    await_taken(config, VEHICLES * MESSAGES)
    assert process.finish(0) == []
    process.leave()


def _code_cache() -> tuple[int, int]:
    """Return how large Java's code cache may grow, and what is in it, in bytes, over all its parts."""
    session = SparkSession.getActiveSession()
    assert session is not None
    java: Any = session._jvm
    pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    found = [pool.getUsage() for pool in pools if pool.getName().startswith(("CodeCache", "CodeHeap"))]
    assert found, [pool.getName() for pool in pools]
    return sum(usage.getMax() for usage in found), sum(usage.getUsed() for usage in found)
