"""What a program loads before it begins: a run's first message, a gateway and a refusal wait for no library they do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

# SciPy and Matplotlib are for the end of a run, and take two seconds of CPU; a gateway has one protocol and no columns.
WITHOUT = {
    "ivsim.runs.runner": ("scipy", "matplotlib", "pyspark", "aiocoap"),
    "ivsim.commands.run": (
        "scipy",
        "matplotlib",
        "pyspark",
        "pyarrow",
        "pyroute2",
        "aiocoap",
        "pika",
        "paho",
    ),
    # The client of a testbed: what a run is made of is there.
    "ivsim.runs.served": ("scipy", "matplotlib", "pyspark", "pyarrow", "pyroute2", "confluent_kafka"),
    "gateways.__main__": ("numpy", "pyarrow", "scipy", "aiocoap", "pika", "paho", "fastavro"),
    # A pipe's clients, one process each: a server's machine, and the network that it needs, are the measuring process' own.
    "ivsim.study.engines.pipe.consumer": ("scipy", "matplotlib", "pyspark", "pyroute2"),
    "ivsim.study.engines.pipe.platforms.kafka": ("scipy", "matplotlib", "pyspark", "pyroute2"),
    "ivsim.study.engines.pipe.platforms.redis": ("scipy", "matplotlib", "pyspark", "pyroute2"),
    "simulator.sender": ("scipy", "pyarrow", "aiocoap", "pika", "paho", "fastavro"),
}


@pytest.mark.parametrize("module", WITHOUT)
def test_it_begins_without(module: str) -> None:
    program = f"import sys, {module}; print(*sorted({set(WITHOUT[module])} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
