"""Runs a campaign's schedules one behind another, and says how it goes and what it came to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from rich.console import Console

from ivsim.chaos.campaign import ROWS, SIGNALLED, TABLE, Campaign, Row, Stopped, run_schedule
from ivsim.chaos.campaign_table import markdown
from ivsim.chaos.schedule import Schedule, estimate_s
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.testbed import Testbed

SHRINK_RUNS: Final = 12  # at most, for one schedule that failed


def run_campaign(campaign: Campaign, testbed: Testbed) -> int:
    """Run what the campaign's directory does not hold yet; return 0, 1 when a promise broke, 128 + signal when stopped.

    What is done is in the directory after each run: the same command goes on from there.
    """
    console = Console(stderr=True, highlight=False)
    todo = campaign.left
    if campaign.rows:
        console.print(f"{len(campaign.rows)} runs are in {campaign.base} already")
    console.print(
        f"{sum(len(schedule.faults) for schedule in todo)} faults in {len(todo)} runs, about {_minutes(estimate_s(todo))}"
    )

    def run(schedule: Schedule, below: Path) -> Row:
        return run_schedule(schedule, below, testbed)

    began_s, planned_s = time.monotonic(), 0.0
    try:
        for index, schedule in enumerate(todo):
            left_s = estimate_s(todo[index:])
            if planned_s:  # as fast as it went so far
                left_s *= (time.monotonic() - began_s) / planned_s
            _say(console, schedule, f"{index + 1}/{len(todo)}, {_minutes(left_s)} left")
            row = run(schedule, campaign.base)
            _told(console, row)
            if row.judgement.broken:
                console.print(f"    looking for the smallest schedule that fails, at most {SHRINK_RUNS} runs")
                campaign.smaller(schedule, row, run, SHRINK_RUNS)
                console.print(
                    f"    repeat it: ivsim chaos --schedule {campaign.file_of(row)}", soft_wrap=True
                )
            campaign.add(row)
            planned_s += estimate_s([schedule])
    except Stopped as stop:
        return _stopped(console, campaign, stop.exit_code)
    except Interrupted as signal:  # between two runs
        return _stopped(console, campaign, SIGNALLED + signal.number)
    text = markdown(campaign.rows, campaign.base)
    (campaign.base / TABLE).write_text(text)
    print(text)
    print(f"results: {campaign.base} ({TABLE}, {ROWS})")
    return 1 if any(row.judgement.broken for row in campaign.rows) else 0


def run_again(schedule: Schedule, base: Path, testbed: Testbed) -> int:
    """Run one schedule, print its table, and return 0, 1 when a promise broke, 128 + signal when stopped."""
    console = Console(stderr=True, highlight=False)
    _say(console, schedule, f"about {_minutes(estimate_s([schedule]))}")
    try:
        row = run_schedule(schedule, base, testbed)
    except Stopped as stop:
        return stop.exit_code
    _told(console, row)
    print(markdown([row], base))
    return 1 if row.judgement.broken else 0


def _say(console: Console, schedule: Schedule, progress: str) -> None:
    faults = ", ".join(f"{p.fault} {p.at_s:g}-{p.end_s:g} s" for p in schedule.faults)
    console.print(rf"\[{progress}] {schedule.protocol} {schedule.mode}: {faults}")


def _told(console: Console, row: Row) -> None:
    judgement = row.judgement
    counts = ", ".join(f"{n} {fate}" for fate, n in judgement.counts.items() if n and fate != "due")
    verdict = "BROKEN: " + "; ".join(judgement.broken) if judgement.broken else "kept"
    console.print(f"    {verdict}: {counts}")


def _stopped(console: Console, campaign: Campaign, code: int) -> int:
    console.print(f"stopped; the same command with --output {campaign.base} goes on from here")
    return code


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
