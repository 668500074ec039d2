"""`ivsim pipe`: one measurement of a platform, from its options to its report; the pipe engine does the work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ivsim.commands.common_options import MetricsJson, Output, Quiet
from ivsim.option_signature import option_parameters, taking
from ivsim.study.engines.pipe.options import OPTIONS, PANELS, PipeOptions, pipe_options


@taking(option_parameters(OPTIONS, PANELS, variables=None))
def command(
    *,
    output: Output = None,
    as_json: MetricsJson = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Send records through a platform such as Kafka, read them, and account for every one and for what it cost.

    At a rate it measures latency, from when a record was due; as fast as it goes, throughput; never both at once.
    """
    typed = {name: value for name, value in given.items() if value is not None}
    raise typer.Exit(_run(pipe_options(typed), output, as_json=as_json, quiet=quiet))


def _run(options: PipeOptions, output: Path | None, *, as_json: bool, quiet: bool) -> int:
    from ivsim.study.engines.pipe.page import head  # noqa: PLC0415 - charts load in a second that --help need not wait
    from ivsim.study.engines.pipe.run import run  # noqa: PLC0415
    from ivsim.study.engines.pipe.terminal import print_summary  # noqa: PLC0415

    outcome = run(options, output, quiet=quiet or as_json)
    if outcome.error is not None:
        print(f"ivsim: {outcome.error}", file=sys.stderr)
    if as_json and outcome.metrics:
        print(json.dumps(outcome.metrics, indent=2, sort_keys=True))
    elif outcome.metrics:
        print_summary(Console(), outcome.metrics, head(options.model_dump(mode="json")), outcome.report)
    return outcome.exit_code
