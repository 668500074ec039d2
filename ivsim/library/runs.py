"""A run from Python: what `ivsim run` calls too; it prints nothing of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ivsim.library.results import Results, load_results
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.display import Display
from ivsim.runs.outcome import Outcome
from ivsim.runs.own_thread import OwnThread
from ivsim.runs.runner import Disturb, execute
from ivsim.runs.testbed import Testbed
from schemas.errors import Refusal


class RunFailed(RuntimeError):  # noqa: N818 - what happened, not a kind of error
    """A run broke off: a part of it died, or a signal stopped it.

    Attributes:
        results: what is known of it, marked as partial; None when it broke before its first message was due.
        exit_code: of `ivsim run` in this case: 1, or 128 and the number of the signal.
    """

    def __init__(self, message: str, results: Results | None, exit_code: int) -> None:
        super().__init__(message)
        self.results, self.exit_code = results, exit_code


def run(
    options: RunOptions | None = None,
    output: str | Path | None = None,
    *,
    testbed: Testbed | None = None,
    quiet: bool = True,
    **fields: Any,
) -> Results:
    """Run once and return the results.

    Args:
        options: what is run, checked; or give its fields by name, as in `run(protocol="coap", mode="con")`.
        output: directory of the result, made here; the default is `results/<run>` below the current one.
        testbed: one that stays up; without it the run opens and closes everything itself.
        quiet: no progress on standard error.
        fields: of RunOptions; units are in the names.

    Raises:
        Refusal: the options cannot be run, here or anywhere; nothing was started.
        RunFailed: the run broke off; `results` holds what is known.
    """
    outcome = outcome_of(_checked(options, fields), output, testbed=testbed, quiet=quiet)
    if outcome.error is not None or outcome.directory is None:
        raise RunFailed(outcome.error or "the run left no result", _known(outcome), outcome.exit_code)
    return load_results(outcome.directory)


def _known(outcome: Outcome) -> Results | None:
    """Return what a run that broke off has left; None where that cannot be read, as where its disk was full."""
    if not outcome.metrics or outcome.directory is None:
        return None
    try:
        return load_results(outcome.directory)
    except Refusal:
        return None


def outcome_of(
    options: RunOptions,
    output: str | Path | None,
    *,
    testbed: Testbed | None = None,
    quiet: bool = True,
    display: Display | None = None,
    disturb: Disturb | None = None,
) -> Outcome:
    """Run once, alone or in a testbed, and return how it ended; an end that is no success raises nothing.

    `disturb` is called several times a second while messages are due.
    """
    path = None if output is None else Path(output)
    if testbed is None:
        thread = OwnThread()
        try:
            return thread.call(
                _alone, options, path, display or Display(quiet=quiet), thread.disturb(disturb)
            )
        finally:
            thread.close()
    return testbed.run(options, path, display=display or Display(quiet=quiet), disturb=disturb)


def _alone(options: RunOptions, path: Path | None, display: Display, disturb: Disturb) -> Outcome:
    return execute(options, path, quiet=True, disturb=disturb, display=display)


def _checked(options: RunOptions | None, fields: dict[str, Any]) -> RunOptions:
    if options is None:
        return run_options(**fields)
    if fields:
        raise Refusal(f"run: give options or fields, not both: {', '.join(fields)}")
    return options
