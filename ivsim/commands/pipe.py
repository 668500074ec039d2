"""`ivsim pipe`: one measurement of a platform, from its options to its report; the pipe engine does the work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ivsim.commands.common_options import MetricsJson, Output, Progress, Quiet
from ivsim.commands.progress import wants_json
from ivsim.option_signature import option_parameters, taking
from ivsim.study.engines.pipe.options import OPTIONS, PANELS, PipeOptions, pipe_options
from ivsim.told import TERMINAL, say_error


@taking(option_parameters(OPTIONS, PANELS, variables=None))
def command(
    *,
    output: Output = None,
    as_json: MetricsJson = False,
    quiet: Quiet = False,
    progress: Progress = TERMINAL,
    **given: Any,
) -> None:
    """Send records through a platform such as Kafka, read them, and account for every one and for what it cost.

    At a rate it measures latency, from when a record was due; as fast as it goes, throughput; never both at once.
    """
    typed = {name: value for name, value in given.items() if value is not None}
    json_lines = wants_json(progress, quiet=quiet)
    raise typer.Exit(_run(pipe_options(typed), output, as_json=as_json, quiet=quiet, json_lines=json_lines))


def _run(options: PipeOptions, output: Path | None, *, as_json: bool, quiet: bool, json_lines: bool) -> int:
    from ivsim.runs.display import Display, JsonDisplay  # noqa: PLC0415 - as below
    from ivsim.study.engines.pipe.page import head  # noqa: PLC0415 - charts load in a second that --help need not wait
    from ivsim.study.engines.pipe.run import run  # noqa: PLC0415
    from ivsim.study.engines.pipe.terminal import print_summary  # noqa: PLC0415

    display = JsonDisplay(sys.stderr) if json_lines else Display(quiet=quiet or as_json)
    outcome = run(options, output, display)
    if outcome.error is not None:
        say_error(outcome.error)
    if as_json and outcome.metrics:
        print(json.dumps(outcome.metrics, indent=2, sort_keys=True))
    elif outcome.metrics:
        print_summary(Console(), outcome.metrics, head(options.model_dump(mode="json")), outcome.report)
    return outcome.exit_code
