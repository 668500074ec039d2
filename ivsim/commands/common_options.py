"""What the commands that measure have in common: options beside those of a run, and the verdicts on its thresholds."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gateways.protocols import PROTOCOLS
from ivsim.annotations import NONE, SERVICES, lines, wrong_with
from ivsim.commands.files import check_writable
from ivsim.commands.progress import progress_option
from ivsim.option_signature import check_variables, option_parameters, word_parameters
from ivsim.options import OPTIONS, PANELS, PROTOCOL, RUN, RunOptions
from ivsim.runs.outcome import EXIT_FAILED, Outcome
from ivsim.target import needs_consent
from ivsim.target import parse as parse_target
from ivsim.thresholds import (
    ABORT_ON,
    EXIT_MISSED,
    Judged,
    Threshold,
    all_met,
    parse,
    parse_conditions,
    write_junit,
)
from ivsim.told import for_programs, say_error

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        help="Directory of the result. (default results/<run>)",
        rich_help_panel=RUN,
        metavar="PATH",
    ),
]
Testbed = Annotated[
    bool,
    typer.Option("--testbed", help="Run on the testbed that `ivsim up` keeps open.", rich_help_panel=RUN),
]
Progress = Annotated[str, progress_option(RUN)]
AbortOn = Annotated[
    list[str] | None,
    typer.Option(
        ABORT_ON,
        help="End early once a live figure is so, such as 'p99(end_to_end) > 10s'; exit code 3.",
        rich_help_panel=RUN,
        metavar="CONDITION",
    ),
]
MetricsJson = Annotated[
    bool, typer.Option("--json", help="Print metrics.json alone on standard output.", rich_help_panel=RUN)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress display.", rich_help_panel=RUN)]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        help="What a figure must reach, as 'p99(end_to_end) < 1s' or 'delivery_ratio == 1'; exit code 3 when it does not."
        " May be given more than once.",
        rich_help_panel=RUN,
        metavar="TEXT",
    ),
]
JUnit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        help="Also write the thresholds' verdicts as JUnit XML.",
        rich_help_panel=RUN,
        metavar="PATH",
    ),
]
Annotations = Annotated[
    str | None,
    typer.Option(
        "--annotations",
        help=f"Also say on standard error what is wrong as a CI service shows it beside a change: {', '.join(SERVICES)} or"
        f" {NONE}. (default github in a job of GitHub Actions)",
        rich_help_panel=RUN,
        metavar="TEXT",
    ),
]


def run_parameters() -> list[inspect.Parameter]:
    """Return a command's parameters for every option of a run: the protocol, the words of its modes, all others."""
    protocol, *others = option_parameters(OPTIONS, PANELS)
    return [protocol, *word_parameters(PROTOCOLS.values(), PROTOCOL), *others]


def checked_thresholds(
    typed: Sequence[str] | None, of_file: Sequence[str] | None, junit: Path | None
) -> list[Threshold]:
    """Return the thresholds: those that were typed, and those of the configuration file on other figures.

    Refusal for one that says nothing, a JUnit file that cannot be, a variable of no option.
    """
    check_variables(run_parameters(), os.environ)
    thresholds = typed_first([parse(text) for text in typed or ()], [parse(text) for text in of_file or ()])
    if junit is not None:
        check_writable("--junit", junit)
    return thresholds


def checked_conditions(typed: Sequence[str] | None, of_file: Sequence[str] | None) -> list[Threshold]:
    """Return the conditions that end a run early: those that were typed, and the file's on other figures."""
    return typed_first(parse_conditions(typed or ()), parse_conditions(of_file or ()))


def typed_first(typed: Sequence[Threshold], of_file: Sequence[Threshold]) -> list[Threshold]:
    """Return what was typed, and what the file says of other figures."""
    figures = {one.figure for one in typed}
    return [*typed, *(one for one in of_file if one.figure not in figures)]


def agreed(options: RunOptions) -> RunOptions:
    """Return the options with a consent to the target's load, asked for on a terminal where it is missing."""
    if options.target is None or options.target_consent is not None or not sys.stdin.isatty():
        return options
    target = parse_target(options.target)
    if not needs_consent(target):
        return options
    load = f"{options.sending / options.interval_s:.3g} messages/s of {options.sending} vehicles"
    if not typer.confirm(
        f"{load} would go to {target.host}, which is not this machine. Is it yours to load?", err=True
    ):
        return options  # the run is refused with what to type
    return options.model_copy(update={"target_consent": target.host})


def annotate(service: str, command: str, outcome: Outcome, judged: Sequence[Judged]) -> None:
    """Print what is wrong with a run as the service shows it; a program that follows the run reads no such lines."""
    if for_programs():
        return
    for line in lines(service, wrong_with(command, outcome.error, outcome.metrics, judged)):
        print(line, file=sys.stderr)


def exit_code(
    outcome: Outcome, judged: Sequence[Judged], junit: Path | None, took_s: float, command: str
) -> int:
    """Return a run's exit code, 3 where it only misses a threshold, and write the JUnit file if there is to be one.

    1 where the file, which could be written before the run, cannot be any more.
    """
    code = outcome.exit_code or (0 if all_met(judged) else EXIT_MISSED)
    if junit is None:
        return code
    name = command if outcome.directory is None else outcome.directory.name
    try:
        write_junit(junit, name, judged, time_s=took_s, validity=outcome.metrics.get("validity"))
    except OSError as error:
        say_error(f"--junit {junit}: {error.strerror or error}")
        return outcome.exit_code or EXIT_FAILED
    return code


def measured(
    options: RunOptions,
    output: Path | None,
    conditions: Sequence[Threshold],
    *,
    testbed: bool,
    json_lines: bool,
    quiet: bool,
) -> Outcome:
    """Run once, here or on the testbed that is up, and return what it came to.

    Args:
        options: of the run.
        output: directory of the result; None is the default.
        conditions: that end it early.
        testbed: ask the one that `ivsim up` keeps open.
        json_lines: tell progress as objects.
        quiet: tell none.
    """
    if testbed:
        from ivsim.runs.served import ask  # noqa: PLC0415 - what a run is made of takes a second to load

        return ask(options, output, quiet=quiet and not json_lines, abort_on=[one.text for one in conditions])
    from ivsim.library.runs import outcome_of  # noqa: PLC0415
    from ivsim.runs.abort import Watch  # noqa: PLC0415
    from ivsim.runs.display import Display, JsonDisplay  # noqa: PLC0415
    from ivsim.runs.phase_times import PhaseTimes, cache_file  # noqa: PLC0415

    times = PhaseTimes(options, cache_file())
    display = JsonDisplay(sys.stderr, times) if json_lines else Display(quiet=quiet, times=times)
    return outcome_of(options, output, display=display, disturb=Watch(conditions))
