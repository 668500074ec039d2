"""The Java virtual machine inside this process, with the classes that a pipe's ends need."""

from __future__ import annotations

from functools import cache

from gateways.sinks import embedded as machine
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import class_path
from ivsim.testbed.java_client import libjvm


@cache
def embedded() -> machine.Embedded:
    """Return the process's own, started when it is first asked for."""
    return machine.embedded(str(libjvm()), tuple(class_path()))
