"""A campaign: schedule after schedule on one testbed, each judged and noted; what failed is made smaller."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from gateways.protocols import PROTOCOLS
from ivsim.chaos.case import LOSS_TIMEOUT_S, MAY_LOSE_TIMEOUT_S, taken_at_ns
from ivsim.chaos.faults import GATEWAYS
from ivsim.chaos.history import broken_history
from ivsim.chaos.injector import Injector
from ivsim.chaos.promises import (
    KEEPS,
    SAVED,
    SHARED,
    Judgement,
    Promise,
    acknowledged_and_lost,
    judge,
    of_ends,
    owed_by_broker,
    promise_of,
    weakest,
)
from ivsim.chaos.schedule import Schedule, draw
from ivsim.chaos.shrink import shrink
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.testbed import Testbed
from schemas.errors import Refusal
from schemas.json_files import write_json

CAMPAIGN: Final = "campaign.json"
ROWS: Final = "runs.jsonl"
TABLE: Final = "campaign.md"
SIGNALLED: Final = 128
KILLS_OF_TWIN: Final = "spark-kill"
# 200 messages/s: so many are under way when a part fails that each of its ways to lose one is met.
VEHICLES: Final = 100
INTERVAL_S: Final = 0.5


@dataclass
class Row:
    """What one run of a campaign came to; a line of runs.jsonl.

    Attributes:
        name, protocol, mode: of its schedule.
        injected: the faults that began.
        acknowledged: messages acknowledged to their vehicles.
        acknowledged_lost: of these, how many are not in Kafka, by the hop where they were last seen.
        judgement: its counts, and what is broken; empty where all is kept.
        smallest: the smallest failing schedule, where one failed and was made smaller.
        tried: how many smaller schedules were run for it.
        broker_ends: of a broker that saves now and then, as `of_ends`.
    """

    name: str
    protocol: str
    mode: str
    injected: list[str] = field(default_factory=list)
    acknowledged: int = 0
    acknowledged_lost: dict[str, int] = field(default_factory=dict)
    judgement: Judgement = field(default_factory=Judgement)
    smallest: dict[str, Any] | None = None
    tried: int = 0
    broker_ends: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of_line(cls, line: str) -> Row:
        found = json.loads(line)
        return cls(**{**found, "judgement": Judgement(**found["judgement"])})


class Stopped(Exception):  # noqa: N818 - what happened
    """A signal ended a run; `exit_code` is its own."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def promise_after(schedule: Schedule, gateways: int = len(GATEWAYS)) -> Promise:
    """Return what the mode keeps after all faults of the schedule: the weakest of their promises."""
    mode = PROTOCOLS[schedule.protocol].modes[schedule.mode]
    return weakest(
        promise_of(schedule.protocol, mode, planned.fault, gateways) for planned in schedule.faults
    )


def options_of(schedule: Schedule) -> RunOptions:
    """Return the run around the faults: messages before, while and after they last."""
    keeps = promise_after(schedule) in {KEEPS, SAVED, SHARED}
    return run_options(
        protocol=schedule.protocol,
        mode=schedule.mode,
        vehicles=VEHICLES,
        interval_s=INTERVAL_S,
        gateways=len(GATEWAYS),
        duration_s=schedule.duration_s,
        loss_timeout_s=LOSS_TIMEOUT_S if keeps else MAY_LOSE_TIMEOUT_S,
        loss_ratio=0.01,
        seed=schedule.seed,
    )


def run_schedule(schedule: Schedule, base: Path, testbed: Testbed) -> Row:
    """Run a schedule below `base` and judge it; Stopped when a signal ended it.

    The directory of a run that kept its promises is removed: its row has what is told of it.
    """
    directory = base / schedule.name
    if directory.is_dir():
        shutil.rmtree(directory)  # of a command that was stopped in the middle of this run
    options, injector = options_of(schedule), Injector(schedule)
    try:
        outcome = testbed.run(options, directory, disturb=injector)
    finally:
        injector.release()
    if outcome.exit_code > SIGNALLED:
        raise Stopped(outcome.exit_code)
    ledger, records = _rows(directory / "ledger.parquet"), _rows(directory / "kafka_records.parquet")
    ledger = owed_by_broker(ledger, injector.injected_at_ns, taken_at_ns(directory, ledger))
    promise = promise_after(schedule).after(injector.broker_ends.found)
    judgement = judge(ledger, promise, outcome.twin_distinct, injector.back_at_ns)
    if outcome.error is not None:
        judgement.broken.append(outcome.error.partition("\n")[0])
    else:
        killed = KILLS_OF_TWIN in injector.injected
        tolerance_ns = round(options.future_tolerance_s * 1e9)
        judgement.broken += broken_history(
            ledger, records, promise, twin_killed=killed, tolerance_ns=tolerance_ns
        )
    if not injector.done():
        judgement.broken.append("the faults were not injected, and their parts back, in time")
    by_hop = dict(sorted(Counter(str(row["hop"]) for row in acknowledged_and_lost(ledger)).items()))
    if judgement.broken:
        directory.mkdir(exist_ok=True)  # a run that broke before its first message has left none
        write_json(directory / "schedule.json", schedule.as_dict())
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return Row(
        schedule.name,
        schedule.protocol,
        schedule.mode,
        injector.injected,
        sum(row["acknowledged_at_ns"] is not None for row in ledger),
        by_hop,
        judgement,
        broker_ends=of_ends(ledger, injector.broker_ends.found),
    )


def _rows(path: Path) -> list[Mapping[str, Any]]:
    return pq.read_table(path).to_pylist() if path.is_file() else []


class Campaign:
    """The directory of a campaign: its schedules are drawn from what stands in it, its rows are those run so far.

    Refusal when the directory is another campaign's, or nothing of a campaign's.
    """

    def __init__(self, base: Path, faults: int, seed: int) -> None:
        self.base, self.faults, self.seed = base, faults, seed
        self.schedules = draw(faults, seed)
        self.rows: list[Row] = []
        self._open()

    @property
    def left(self) -> Sequence[Schedule]:
        """The schedules that no row is of yet."""
        done = {row.name for row in self.rows}
        return [schedule for schedule in self.schedules if schedule.name not in done]

    def add(self, row: Row) -> None:
        """Note a row; a stop leaves whole lines behind."""
        with (self.base / ROWS).open("a") as file:
            file.write(json.dumps(asdict(row), sort_keys=True) + "\n")
        self.rows.append(row)

    def smaller(
        self, schedule: Schedule, row: Row, run: Callable[[Schedule, Path], Row], budget: int
    ) -> None:
        """Look for the smallest schedule that fails too, and write it where `--schedule` finds it."""
        below = self.base / f"{schedule.name}-shrink"
        below.mkdir(exist_ok=True)

        def fails(candidate: Schedule) -> bool:
            return bool(run(candidate, below).judgement.broken)

        smallest, row.tried = shrink(schedule, fails, budget)
        row.smallest = smallest.as_dict()
        write_json(self.file_of(row), row.smallest)

    def sweep(self) -> None:
        """Remove what Spark has written below runs whose directories were removed; once the testbed is closed."""
        for row in self.rows:
            if not row.judgement.broken:
                shutil.rmtree(self.base / row.name, ignore_errors=True)

    def file_of(self, row: Row) -> Path:
        """Return where the smallest failing schedule of a row stands."""
        return self.base / f"{row.name}-smallest.json"

    def _open(self) -> None:
        told = {"faults": self.faults, "seed": self.seed}
        path = self.base / CAMPAIGN
        if not path.is_file():
            if any(self.base.iterdir()):
                raise Refusal(f"--output {self.base}: not empty, and not a campaign's; name a new directory")
            write_json(path, told)
            return
        try:
            found = json.loads(path.read_text())
            rows = (self.base / ROWS).read_text() if (self.base / ROWS).is_file() else ""
            self.rows = [Row.of_line(line) for line in rows.splitlines()]
        except (ValueError, TypeError, KeyError) as error:
            raise Refusal(f"--output {self.base}: not a campaign's: {error}") from None
        if found != told:
            raise Refusal(
                f"--output {self.base}: another campaign's: --campaign {found.get('faults')} --seed"
                f" {found.get('seed')}"
            )
