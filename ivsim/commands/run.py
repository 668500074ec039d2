"""`ivsim run`: one run, from its options to its report; ivsim.runs does the work."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ivsim.annotations import chosen
from ivsim.commands.common_options import (
    AbortOn,
    Annotations,
    JUnit,
    MetricsJson,
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
from ivsim.commands.config_file import TEXTS, Config, naming, read_config
from ivsim.commands.profile_file import ProfileFile
from ivsim.commands.progress import wants_json
from ivsim.deployment import Profile, read_profile
from ivsim.option_rules import checked_options
from ivsim.option_signature import given_of, taking
from ivsim.options import RunOptions, fields_with_mode
from ivsim.report.terminal import print_summary
from ivsim.runs.outcome import Outcome
from ivsim.thresholds import Threshold, judge
from ivsim.told import TERMINAL, say, say_error


@taking(run_parameters())
def command(
    *,
    output: Output = None,
    as_json: MetricsJson = False,
    quiet: Quiet = False,
    testbed: Testbed = False,
    progress: Progress = TERMINAL,
    config: Config = None,
    profile: ProfileFile = None,
    threshold: Thresholds = None,
    abort_on: AbortOn = None,
    junit: JUnit = None,
    annotations: Annotations = None,
    **given: Any,
) -> None:
    """Send messages from a fleet over a replayed cellular link, keep its twins, and account for every message."""
    said, own = read_config(config, {"threshold": TEXTS, "abort_on": TEXTS})
    thresholds = checked_thresholds(threshold, own.get("threshold"), junit)
    conditions = checked_conditions(abort_on, own.get("abort_on"))
    service = chosen(annotations)
    options = agreed(_options(given, config, said, read_profile(profile)))
    json_lines = wants_json(progress, quiet=quiet, annotations=annotations)
    began_s = time.monotonic()
    outcome = measured(
        options,
        output,
        conditions,
        testbed=testbed,
        json_lines=json_lines,
        quiet=quiet or as_json,
    )
    took_s = time.monotonic() - began_s
    raise typer.Exit(_told(options, outcome, thresholds, junit, took_s, service, as_json=as_json))


def _options(
    given: dict[str, Any], config: Path | None, said: dict[str, Any], profile: Profile
) -> RunOptions:
    """Return the checked options; what is typed goes before what files say, the profile last."""
    typed, words = given_of(RunOptions, given)
    fields = {**profile.of_run(said | typed), **said, **typed}
    if words or "mode" not in said:
        fields = fields_with_mode(fields, words)
    return checked_options(fields, naming(config, said, typed, profile))


def _told(
    options: RunOptions,
    outcome: Outcome,
    thresholds: list[Threshold],
    junit: Path | None,
    took_s: float,
    service: str,
    *,
    as_json: bool,
) -> int:
    """Print the result and what each threshold came to, and return the exit code."""
    if outcome.error is not None:
        say_error(outcome.error)
    if as_json:
        print(json.dumps(outcome.metrics, indent=2, sort_keys=True))
    elif outcome.metrics:
        title = f"{options.spoken}, {options.sending} vehicles"
        print_summary(Console(), outcome.metrics, title, outcome.report, options.topology)
    judged = judge(thresholds, outcome.metrics)
    for one in judged:
        say("threshold", one.words) if as_json else print(one.words)
    annotate(service, "ivsim run", outcome, judged)
    return exit_code(outcome, judged, junit, took_s, "ivsim run")
