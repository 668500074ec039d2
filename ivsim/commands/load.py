"""`ivsim load`: a load test in stages, judged by thresholds; the run itself is every run's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.annotations import chosen
from ivsim.commands.common_options import (
    AbortOn,
    Annotations,
    JUnit,
    Output,
    Progress,
    Quiet,
    Testbed,
    Thresholds,
    agreed,
    annotate,
    checked_conditions,
    checked_thresholds,
    exit_code,
    measured,
    run_parameters,
)
from ivsim.commands.config_file import NUMBER, TEXTS, Config, naming, read_config
from ivsim.commands.load_capacity import find_capacity as run_capacity
from ivsim.commands.profile_file import ProfileFile
from ivsim.commands.progress import wants_json
from ivsim.deployment import read_profile
from ivsim.load.asked import options_of
from ivsim.load.by_stage import StageFigures, stage_figures
from ivsim.load.capacity_asked import FROM, RESOLUTION, TO, refuse_given
from ivsim.load.capacity_asked import asked as capacity_asked
from ivsim.load.service_level import service_level
from ivsim.load.verdict import first_word
from ivsim.option_signature import given_of, taking
from ivsim.options import RUN, VEHICLES, RunOptions, fields_with_mode
from ivsim.report.style import number
from ivsim.report.terminal import print_summary
from ivsim.runs.outcome import Outcome
from ivsim.thresholds import ABORT_ON, Judged, Threshold, judge
from ivsim.told import TERMINAL, say_error

CAPACITY = "Capacity"
# What a file may say beside the options of a run.
_OWN = {"stage": TEXTS, "rate": NUMBER, "threshold": TEXTS, "abort_on": TEXTS}
_VERDICTS = {"valid": "green", "degraded": "bold yellow"}


@taking(run_parameters())
def command(
    *,
    stage: Annotated[
        list[str] | None,
        typer.Option(
            help="DURATION:VEHICLES, such as 60s:1000, or a ramp, such as 1m30s:0-500; one behind another. Says how many"
            " of the vehicles send; all are connected from the start.",
            rich_help_panel=VEHICLES,
            metavar="STAGE",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Each vehicle's messages/s while it sends, in place of --interval.", rich_help_panel=VEHICLES
        ),
    ] = None,
    threshold: Thresholds = None,
    abort_on: AbortOn = None,
    testbed: Testbed = False,
    progress: Progress = TERMINAL,
    junit: JUnit = None,
    annotations: Annotations = None,
    config: Config = None,
    profile: ProfileFile = None,
    find_capacity: Annotated[
        bool,
        typer.Option(
            "--find-capacity",
            help="Raise the load step by step, each a run of --duration (default 30 s) on one testbed, to find the highest"
            " that meets the service level (--threshold): messages/s of --vehicles; or vehicles, with --rate or"
            " --interval.",
            rich_help_panel=CAPACITY,
        ),
    ] = False,
    first: Annotated[
        int | None,
        typer.Option(
            FROM,
            help="Load of the first step. (default 50 messages/s, 20 vehicles)",
            rich_help_panel=CAPACITY,
            metavar="LOAD",
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            TO,
            help="Load that no step goes beyond. (default 10000)",
            rich_help_panel=CAPACITY,
            metavar="LOAD",
        ),
    ] = None,
    resolution: Annotated[
        float | None,
        typer.Option(
            RESOLUTION,
            help="How far above the highest load that meets it the lowest that does not may be, as a share."
            " (default 0.05)",
            rich_help_panel=CAPACITY,
            metavar="RATIO",
        ),
    ] = None,
    output: Output = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON alone.", rich_help_panel=RUN)
    ] = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Send a fleet's messages in stages of growing load, and say whether what they met was good enough."""
    said, own = read_config(config, _OWN)
    stage, rate = stage or own.get("stage"), own.get("rate") if rate is None else rate
    thresholds = checked_thresholds(threshold, own.get("threshold"), junit)
    conditions = checked_conditions(abort_on, own.get("abort_on"))
    service = chosen(annotations)
    typed, words = given_of(RunOptions, given)
    shared = read_profile(profile)
    fields = {**shared.of_run(said | typed), **said, **typed}
    if words or "mode" not in said:
        fields = fields_with_mode(fields, words)
    without = {FROM: first, TO: most, RESOLUTION: resolution}
    for_stages = {"--stage": stage, ABORT_ON: conditions, "--junit": junit, "--testbed": testbed or None}
    json_lines = wants_json(progress, quiet=quiet, annotations=annotations)
    refuse_given(for_stages if find_capacity else without, find_capacity=find_capacity)
    if find_capacity:
        asked = capacity_asked(fields, rate, first, most, resolution)
        level = service_level(asked.options, thresholds)
        raise typer.Exit(
            run_capacity(asked, level, output, quiet=quiet, as_json=as_json, json_lines=json_lines)
        )
    options = agreed(options_of(fields, stage or (), rate, naming(config, said, typed, shared)))
    began_s = time.monotonic()
    outcome = measured(
        options, output, conditions, testbed=testbed, json_lines=json_lines, quiet=quiet or as_json
    )
    took_s = time.monotonic() - began_s
    raise typer.Exit(_told(outcome, options, thresholds, junit, service, as_json=as_json, time_s=took_s))


def _told(
    outcome: Outcome,
    options: RunOptions,
    thresholds: list[Threshold],
    junit: Path | None,
    service: str,
    *,
    as_json: bool,
    time_s: float,
) -> int:
    """Print the result, write the JUnit file, and return the exit code."""
    judged = judge(thresholds, outcome.metrics)
    stages = _stages(outcome, options)
    if outcome.error is not None:
        say_error(outcome.error)
    if as_json:
        word, reasons = first_word(outcome.metrics)
        result = {
            "verdict": word,
            "reasons": reasons,
            "stages": [one._asdict() for one in stages],
            "thresholds": [one.as_dict() for one in judged],
            "metrics": outcome.metrics,
        }
        print(json.dumps(result, indent=2, sort_keys=True))
    else:
        _print(outcome, options, stages, judged)
    annotate(service, "ivsim load", outcome, judged)
    return exit_code(outcome, judged, junit, time_s, "ivsim load")


def _stages(outcome: Outcome, options: RunOptions) -> list[StageFigures]:
    if outcome.directory is None:
        return []
    manifest = json.loads((outcome.directory / "manifest.json").read_text())
    return stage_figures(outcome.directory / "ledger.parquet", options, manifest["start_at_ns"])


def _print(outcome: Outcome, options: RunOptions, stages: list[StageFigures], judged: list[Judged]) -> None:
    console = Console()
    word, reasons = first_word(outcome.metrics)
    style = _VERDICTS.get(word, "bold red")
    console.print(Text.assemble((word, style), f": {reasons}" if reasons else ""), soft_wrap=True)
    if stages:
        table = Table(title="stages", title_justify="left", title_style="bold", header_style="dim", padding=0)
        heads = ("s", "vehicles", "offered\n/s", "emitted\n/s", "delivered\n/s", "delivery\nratio")
        for head in (*heads, "lag p99\nms", "end to\nend p50\nms", "end to\nend p99\nms"):
            table.add_column(head, justify="right")
        for one in stages:
            begin, end = one.begin_vehicles, one.end_vehicles
            rates = (one.offered_per_s, one.emitted_per_s, one.delivered_per_s)
            table.add_row(
                f"{one.duration_s:g}",
                f"{begin:,}" if begin == end else f"{begin:,}\nto {end:,}",
                *(number(rate) for rate in rates),
                number(one.delivery_ratio, "ratio"),
                number(one.emission_lag_p99_ms),
                number(one.end_to_end_latency_p50_ms),
                number(one.end_to_end_latency_p99_ms),
            )
        console.print(table)
    if (p99_ms := outcome.metrics.get("time_to_connected_p99_ms")) is not None:
        p50_ms, failed = outcome.metrics["time_to_connected_p50_ms"], outcome.metrics["connect_failures"]
        console.print(
            f"time to connected at {options.connect_rate_per_s:g}/s: p50 {number(p50_ms)} ms, p99 {number(p99_ms)} ms;"
            f" failed attempts {number(failed)}",
            highlight=False,
            soft_wrap=True,
        )
    for verdict in judged:
        console.print(f"threshold {verdict.words}", highlight=False, markup=False)
    if outcome.metrics:
        title = f"{options.spoken}, {options.sending} vehicles"
        print_summary(console, outcome.metrics, title, outcome.report, options.topology)
