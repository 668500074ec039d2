"""`ivsim run`: one run, from its options to its report; ivsim.runs does the work."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ivsim.annotations import chosen
from ivsim.commands.common_options import (
    Annotations,
    JUnit,
    MetricsJson,
    Output,
    Quiet,
    Thresholds,
    agreed,
    annotate,
    checked_thresholds,
    exit_code,
    run_parameters,
)
from ivsim.commands.config_file import TEXTS, Config, naming, read_config
from ivsim.commands.profile_file import ProfileFile
from ivsim.deployment import Profile, read_profile
from ivsim.option_rules import checked_options
from ivsim.option_signature import given_of, taking
from ivsim.options import RUN, RunOptions, fields_with_mode
from ivsim.report.terminal import print_summary
from ivsim.runs.outcome import Outcome
from ivsim.thresholds import Threshold, judge
from schemas.errors import Refusal

_PROGRESS = ("terminal", "json")


@taking(run_parameters())
def command(
    *,
    output: Output = None,
    as_json: MetricsJson = False,
    quiet: Quiet = False,
    testbed: Annotated[
        bool,
        typer.Option("--testbed", help="Run on the testbed that `ivsim up` keeps open.", rich_help_panel=RUN),
    ] = False,
    progress: Annotated[
        str,
        typer.Option(
            "--progress",
            help="How it is told on standard error: terminal, or json, an object a line. (default terminal)",
            rich_help_panel=RUN,
            metavar="TEXT",
            show_default=False,
        ),
    ] = _PROGRESS[0],
    config: Config = None,
    profile: ProfileFile = None,
    threshold: Thresholds = None,
    junit: JUnit = None,
    annotations: Annotations = None,
    **given: Any,
) -> None:
    """Send messages from a fleet over a replayed cellular link, keep its twins, and account for every message."""
    said, own = read_config(config, {"threshold": TEXTS})
    thresholds = checked_thresholds(threshold, own.get("threshold"), junit)
    service = chosen(annotations)
    options = agreed(_options(given, config, said, read_profile(profile)))
    if progress not in _PROGRESS:
        raise Refusal(f"--progress {progress!r}: allowed are {', '.join(_PROGRESS)}")
    silenced = quiet or as_json
    if progress == "json" and (quiet or testbed):
        raise Refusal(f"--progress json: not with {'--quiet' if quiet else '--testbed'}")
    began_s = time.monotonic()
    outcome = _outcome(options, output, quiet=silenced, testbed=testbed, json_lines=progress == "json")
    took_s = time.monotonic() - began_s
    raise typer.Exit(_told(options, outcome, thresholds, junit, took_s, service, as_json=as_json))


def _options(
    given: dict[str, Any], config: Path | None, said: dict[str, Any], profile: Profile
) -> RunOptions:
    """Return the checked options; what is typed goes before what files say, the profile last."""
    typed, words = given_of(RunOptions, given)
    fields = {**profile.fields, **said, **typed}
    if words or "mode" not in said:
        fields = fields_with_mode(fields, words)
    return checked_options(fields, naming(config, said, typed, profile))


def _outcome(
    options: RunOptions, output: Path | None, *, quiet: bool, testbed: bool, json_lines: bool
) -> Outcome:
    if testbed:
        from ivsim.runs.served import ask  # noqa: PLC0415 - see _told

        return ask(options, output, quiet=quiet)
    from ivsim.library.runs import outcome_of  # noqa: PLC0415
    from ivsim.runs.display import Display, JsonDisplay  # noqa: PLC0415
    from ivsim.runs.phase_times import PhaseTimes, cache_file  # noqa: PLC0415

    times = PhaseTimes(options, cache_file())
    display = JsonDisplay(sys.stderr, times) if json_lines else Display(quiet=quiet, times=times)
    return outcome_of(options, output, quiet=quiet, display=display)


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
        print(f"ivsim: {outcome.error}", file=sys.stderr)
    if as_json:
        print(json.dumps(outcome.metrics, indent=2, sort_keys=True))
    elif outcome.metrics:
        title = f"{options.spoken}, {options.vehicles} vehicles"
        print_summary(Console(), outcome.metrics, title, outcome.report)
    judged = judge(thresholds, outcome.metrics)
    for one in judged:
        print(one.words, file=sys.stderr if as_json else sys.stdout)
    annotate(service, "ivsim run", outcome, judged)
    return exit_code(outcome, judged, junit, took_s, "ivsim run")
