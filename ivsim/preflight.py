"""What must be there before a run starts anything: every missing part is one clear line with its remedy."""

from __future__ import annotations

import resource
import shutil

from gateways.protocols import PROTOCOLS
from ivsim.options import RunOptions
from ivsim.testbed import mosquitto, rabbitmq
from ivsim.testbed.kafka import java_command, probe
from ivsim.testbed.paths import installed_jars
from schemas.errors import Refusal

SPARE_FILES = 512
PROGRAMS = {"nsenter": "util-linux", "setpriv": "util-linux"}


def preflight(options: RunOptions) -> None:
    """Return when the parts of this run are installed and answer; Refusal names the first that does not."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Refusal(f"no {program} found: run `make setup`, or install the package {package}")
    broker = PROTOCOLS[options.protocol].broker
    if broker == "mosquitto":
        mosquitto.program()
    elif broker == "rabbitmq":
        rabbitmq.program("rabbitmq-server")
    _descriptors(options)
    java_command()
    installed_jars("spark")
    if options.topology == "gateway":
        _kafka(options)


def _descriptors(options: RunOptions) -> None:
    """Each vehicle has a socket in the pacer, and each connection one in the broker."""
    needed = options.vehicles + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise Refusal(
            f"--vehicles {options.vehicles}: needs {needed} open files, {hard} are allowed: raise `ulimit -Hn`"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # what this run starts inherits it


def _kafka(options: RunOptions) -> None:
    if options.kafka is None:
        installed_jars("kafka")
    else:
        probe(options.kafka)
