"""One case: a mode, a fault at message N, a run around it, and its judgement."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from gateways import receive_log
from gateways.protocols import PROTOCOLS
from gateways.sinks import CONFLUENT
from ivsim.chaos.faults import FAULTS, BrokerEnds, Fault
from ivsim.chaos.promises import (
    KEEPS,
    Judgement,
    Message,
    Promise,
    judge,
    message_of,
    owed_by_broker,
    promise_of,
)
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.outcome import Outcome
from ivsim.runs.processes import receive_logs
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed

VEHICLES = 10
AT_MESSAGE = 50
AFTER_S = 10.0
LOSS_TIMEOUT_S = 60.0
# Where messages may be lost the run does not wait as long: those never come.
MAY_LOSE_TIMEOUT_S = 25.0


class Case(NamedTuple):
    """What is run; `name` names its directory.

    Attributes:
        gateways: that share the vehicles; a fault of the gateway is the first one's.
        kafka_client: by which they send to Kafka.
        platform: through which the messages go to a consumer; "": through Kafka into the twins.
    """

    protocol: str
    mode: str
    fault: str
    gateways: int = 1
    kafka_client: str = CONFLUENT
    platform: str = ""

    @property
    def name(self) -> str:
        through = f"-through-{self.platform}" if self.platform else ""
        shared = f"-of-{self.gateways}-gateways" if self.gateways > 1 else ""
        client = f"-by-{self.kafka_client}" if self.kafka_client != CONFLUENT else ""
        return f"{self.protocol}-{self.mode}-{self.fault}{through}{shared}{client}"

    def promise(self) -> Promise:
        """Return what the mode keeps after this fault."""
        mode = PROTOCOLS[self.protocol].modes[self.mode]
        return promise_of(self.protocol, mode, self.fault, self.gateways, self.platform)


class Disturber:
    """Injects the fault once so many messages were emitted, restores it after its time."""

    def __init__(self, fault: Fault, at_message: int) -> None:
        self._fault = fault
        self._at_message = at_message
        self._restore_at_s: float | None = None
        self.injected_at_ns: list[int] = []
        self.broker_ends = BrokerEnds()
        self.restored_at_ns: int | None = None
        self.done = False

    def __call__(self, run: StartedRun) -> None:
        self.broker_ends.watch(run)
        if self.done:
            return
        if self._restore_at_s is None:
            if run.publisher.totals().get("emitted", 0) >= self._at_message:
                run.components.children.down |= self._fault.inject(run)
                self.injected_at_ns.append(time.time_ns())
                self.broker_ends.note(run, self._fault.name)
                self._restore_at_s = time.monotonic() + self._fault.down_s
        elif time.monotonic() >= self._restore_at_s:
            self._fault.restore(run)
            run.components.children.down.clear()
            self.restored_at_ns = time.time_ns()
            self.done = True


def options_of(case: Case, seed: int) -> RunOptions:
    """Return the run around a fault: messages before it, while it lasts, and once the part is back."""
    may_lose = case.promise() is not KEEPS
    return run_options(
        protocol=case.protocol,
        mode=case.mode,
        gateways=case.gateways,
        kafka_client=case.kafka_client,
        **({"topology": "ingest", "platform": case.platform} if case.platform else {}),
        vehicles=VEHICLES,
        duration_s=AT_MESSAGE / VEHICLES + FAULTS[case.fault].down_s + AFTER_S,
        loss_timeout_s=MAY_LOSE_TIMEOUT_S if may_lose else LOSS_TIMEOUT_S,
        loss_ratio=0.01,
        seed=seed,
    )


def run_case(case: Case, output: Path, *, seed: int, testbed: Testbed) -> tuple[Outcome, Judgement]:
    """Run one case in a testbed, below `output`; the judgement also says when the run itself failed."""
    disturber = Disturber(FAULTS[case.fault], AT_MESSAGE)
    directory = output / case.name
    if (directory / "manifest.json").is_file():
        shutil.rmtree(directory)  # of a command that was stopped in the middle of this case
    outcome = testbed.run(options_of(case, seed), directory, disturb=disturber)
    ledger = directory / "ledger.parquet"
    rows = pq.read_table(ledger).to_pylist() if ledger.is_file() else []
    rows = owed_by_broker(rows, {case.fault: disturber.injected_at_ns}, taken_at_ns(directory, rows))
    promise = case.promise().after(disturber.broker_ends.found)
    judgement = judge(rows, promise, outcome.twin_distinct, disturber.restored_at_ns)
    if outcome.error is not None:
        judgement.broken.append(outcome.error.partition("\n")[0])
    if not disturber.done:
        judgement.broken.append("the fault was not injected and restored in time")
    return outcome, judgement


def taken_at_ns(directory: Path, rows: Iterable[Mapping[str, Any]]) -> dict[Message, dict[int, int]]:
    """Return when each gateway, by its number, last took each of the rows' messages that were last seen at a gateway."""
    found: defaultdict[Message, dict[int, int]] = defaultdict(dict)
    held = {message_of(row) for row in rows if row["hop"] == "gateway"}
    if not held:
        return found
    for path in receive_logs(directory):
        number = int(path.stem.partition("-")[2])
        for row in receive_log.to_table(path).to_pylist():
            if (message := message_of(row)) in held:
                found[message][number] = row["received_at_ns"]
    return found
