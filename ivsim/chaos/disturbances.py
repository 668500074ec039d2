"""The faults of a campaign: those of single cases and more, each begun and ended without waiting for any other part.

Several faults last at the same time, so nothing here waits until a part is ready again: a gateway is not, while its
Kafka stands still. `settled` is asked again and again instead.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ivsim.chaos.faults import FAULTS, GATEWAYS, Fault, gateways_of
from ivsim.runs.started import StartedRun
from ivsim.testbed.child import Child
from ivsim.testbed.kafka_admin import answers
from ivsim.testbed.process import NotReady, OwnedProcess

KILL_S: Final = (1.0, 5.0)
PAUSE_S: Final = (2.0, 10.0)
OUTAGE_S: Final = (3.0, 12.0)
ANSWERS_S: Final = 0.2


@dataclass(frozen=True)
class Disturbance:
    """One fault of a campaign.

    Attributes:
        fault: what it does; its own `restore` is for single cases.
        down_range_s: how long it stays, between these.
        restore: begins to bring back its parts.
    """

    fault: Fault
    down_range_s: tuple[float, float]
    restore: Callable[[StartedRun], None]


def process_of(run: StartedRun, part: str) -> OwnedProcess | None:
    """Return the process of a part; None for the link, which has none, and for a second gateway where there is one."""
    components = run.components
    if part == "broker":
        return None if components.broker is None else components.broker.process
    if part in GATEWAYS:
        return _gateway(run, part)
    if part == "kafka":
        return components.kafka[0].process
    if part == "twin":
        assert components.twin is not None, "every run of a campaign has a twin"
        return components.twin.process
    return None


def _gateway(run: StartedRun, part: str) -> Child | None:
    names = gateways_of(run)
    member = GATEWAYS.index(part)
    return run.components.children[names[member]] if member < len(names) else None


def settled(run: StartedRun, part: str) -> bool:
    """Say whether a part that was begun to be brought back is ready; ProcessDied when it has ended instead."""
    components = run.components
    try:
        if part in GATEWAYS:
            child = _gateway(run, part)
            if child is not None and "ready" not in child.latest:
                child.wait_for("ready", 0.0)
        elif part == "twin":
            assert components.twin is not None
            components.twin.wait_ready(0.0)
        elif part == "kafka":
            components.kafka[0].process.check()
            return answers(components.endpoints.kafka.bootstrap, timeout_s=ANSWERS_S)
    except NotReady:
        return False
    return True


def resume(run: StartedRun, part: str) -> None:
    """Let the processes of a part go on that were stopped; nothing where none was."""
    process = process_of(run, part)
    if process is not None and process.running():
        os.killpg(process.pid, signal.SIGCONT)


def relaunch(*parts: str) -> Callable[[StartedRun], None]:
    """Return what begins to start these parts again."""

    def begin(run: StartedRun) -> None:
        components = run.components
        for part in parts:
            if part == "broker":
                assert components.broker is not None
                components.broker.restart()  # waits for its own listener alone
            elif part in GATEWAYS:
                if (child := _gateway(run, part)) is not None:
                    components.children.relaunch(child.name)
            elif part == "twin":
                assert components.twin is not None
                components.twin.relaunch()
            elif part == "kafka":
                components.kafka[0].process.stop()
                components.kafka[0].relaunch()

    return begin


def _on(part: str, act: Callable[[OwnedProcess], object]) -> Callable[[StartedRun], set[str]]:
    """Return what does something to a part's process, and names it."""

    def inject_in(run: StartedRun) -> set[str]:
        process = process_of(run, part)
        assert process is not None
        act(process)
        return {process.name}

    return inject_in


def _pause(process: OwnedProcess) -> None:
    os.killpg(process.pid, signal.SIGSTOP)


def _terminate(process: OwnedProcess) -> None:
    os.kill(process.pid, signal.SIGTERM)
    process.wait_end(process.stop_timeout_s)
    process.kill()


def _fill_disk(process: OwnedProcess) -> None:
    """No file of it may grow any more, by its own resource limit: the host's disk has room as before."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))


def _nothing(_run: StartedRun) -> None:
    """The link comes back by itself."""


def _of_case(name: str, down_range_s: tuple[float, float]) -> Disturbance:
    fault = FAULTS[name]
    return Disturbance(fault, down_range_s, relaunch(*fault.parts))


def _paused(part: str, what: str) -> Disturbance:
    def go_on(run: StartedRun) -> None:
        resume(run, part)

    fault = Fault(
        f"{'spark' if part == 'twin' else part}-pause",
        f"SIGSTOP to {what}, SIGCONT later",
        _on(part, _pause),
        go_on,
        of_broker=part == "broker",
        parts=(part,),
    )
    return Disturbance(fault, PAUSE_S, go_on)


def _of_gateway(part: str, name: str) -> list[Disturbance]:
    """Return what one of the gateways suffers; it joins the others again behind a kill or a stop."""
    kill = Fault(
        f"{part}-kill", f"kill -9 of {name}", _on(part, OwnedProcess.kill), relaunch(part), parts=(part,)
    )
    stop = Fault(
        f"{part}-stop",
        f"SIGTERM to {name}, and a restart",
        _on(part, _terminate),
        relaunch(part),
        parts=(part,),
    )
    return [
        Disturbance(kill, KILL_S, relaunch(part)),
        Disturbance(stop, KILL_S, relaunch(part)),
        _paused(part, name),
    ]


def _cut(run: StartedRun, length_s: float) -> None:
    run.replay.cut(length_s)


def inject(run: StartedRun, name: str, down_s: float) -> set[str]:
    """Do it, and return the names of processes that are down on purpose."""
    if name == "link-cut":
        _cut(run, down_s)
        return set()
    return DISTURBANCES[name].fault.inject(run)


DISTURBANCES: Final = {
    row.fault.name: row
    for row in (
        _of_case("broker-kill", KILL_S),
        _of_case("broker-stop", KILL_S),
        _of_case("backlog-kill", KILL_S),
        _paused("broker", "the broker"),
        *_of_gateway("gateway", "the gateway"),
        *_of_gateway("second-gateway", "the second gateway"),
        _of_case("kafka-kill", KILL_S),
        _paused("kafka", "Kafka"),
        Disturbance(
            Fault(
                "kafka-disk-full",
                "no file of Kafka's may grow (RLIMIT_FSIZE), then a restart",
                _on("kafka", _fill_disk),
                relaunch("kafka"),
                parts=("kafka",),
            ),
            KILL_S,
            relaunch("kafka"),
        ),
        _of_case("spark-kill", KILL_S),
        _paused("twin", "the Spark job"),
        Disturbance(FAULTS["link-cut"], OUTAGE_S, _nothing),
    )
}
