"""`ivsim report`: a finished run's figures and report anew; ivsim.library.report_anew does the work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ivsim.commands.result_path import result_path
from ivsim.listing import paragraph, width_of
from schemas.errors import Refusal
from schemas.json_files import read_json
from twin.place import STORED, Place


def command(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULTS...",
            help="A run's directory; those of several shares, or s3a://BUCKET/PATH of all of them, are joined.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIRECTORY",
            help="Where the result of joined shares goes (default results/RUN).",
        ),
    ] = None,
    s3_endpoint: Annotated[
        str | None,
        typer.Option(
            "--s3-endpoint",
            metavar="URL",
            help="Of the object store that has them (default Amazon's own).",
        ),
    ] = None,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="Make the ledger anew, too, from the vehicles' and gateways' logs and Kafka's records.",
        ),
    ] = False,
) -> None:
    """Rebuild a run's metrics and report from its files, and say which figures changed.

    After an update of ivsim, or where report.html was lost. Every file but
    report.html must be as the run wrote it (SHA256SUMS): otherwise it is refused
    with the file's name, and nothing is changed. Of a study: ivsim study report.

    With --ledger every message is given its fate once more, as at the end of the
    run; also where the run ended without a ledger.

    A run that was killed is finished: its ledger, figures and report are made of
    what its parts have left, and are partial.

    Results of runs with --share, also of a single one with --output, are joined to
    the fleet's: ivsim report share-1 share-2 --output whole; so are those that
    --share-results has put into an object store: ivsim report s3a://BUCKET/PATH
    """

    def say(words: str) -> None:
        print(words, file=sys.stderr)

    named = [_result(word) for word in results]
    stored = [one for one in named if isinstance(one, Place)]
    if s3_endpoint is not None and not stored:
        raise Refusal("--s3-endpoint: needs results at s3a://BUCKET/PATH")
    if len(named) > 1 or output is not None or stored:
        if ledger:
            raise Refusal("--ledger: of one run; that of joined shares is made anew in any case")
        _joined(named, s3_endpoint or "", output, say)
        return
    result = Path(named[0])
    _anew(result, say, ledger=ledger)


def _result(word: str) -> Path | Place:
    """Return the path of a result, or the place in an object store that has several."""
    if not Place(word).remote:
        return result_path(word)
    if STORED.fullmatch(word) is None:
        raise Refusal(f"{word}: write a directory, or s3a://BUCKET/PATH")
    return Place(word)


def _joined(
    results: Sequence[Path | Place], endpoint: str, output: Path | None, say: Callable[[str], None]
) -> None:
    """Join the shares of a fleet, and print what the fleet came to."""
    from rich.console import Console  # noqa: PLC0415 - --help need not wait

    from ivsim.library.join import join  # noqa: PLC0415
    from ivsim.report.terminal import print_summary  # noqa: PLC0415
    from ivsim.runs.interrupt import interruptible  # noqa: PLC0415
    from ivsim.runs.validity import EXIT_INVALID  # noqa: PLC0415

    # SIGTERM too, behind which the copies go.
    with interruptible(), ExitStack() as stack:
        directories: list[Path] = []
        for one in results:
            directories += _taken(stack, one, endpoint, say) if isinstance(one, Place) else [one]
        made = join(directories, output, say)
    metrics = read_json(made.metrics)
    print_summary(Console(), metrics, f"{len(directories)} shares", made.report, "peer")
    if metrics["validity"]["verdict"] == "invalid":
        raise typer.Exit(EXIT_INVALID)


def _taken(stack: ExitStack, place: Place, endpoint: str, say: Callable[[str], None]) -> list[Path]:
    """Return where the results of a place are on this machine, as long as the stack is open; refusals behind it name the place."""
    from ivsim.runs.stored_result import take  # noqa: PLC0415 - Arrow: --help need not wait

    below = stack.enter_context(TemporaryDirectory(prefix="ivsim-shares-"))
    say(f"fetching {place}")
    taken = take(place, endpoint, Path(below))
    stack.enter_context(_called(below, place))
    return taken


@contextmanager
def _called(directory: str, place: Place) -> Iterator[None]:
    """Have refusals of what lies in a directory call it by the place that it is a copy of."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(str(refusal).replace(directory, place.rstrip("/"))) from None


def _anew(results: Path, say: Callable[[str], None], *, ledger: bool) -> None:
    from ivsim.library.folder import is_unfinished  # noqa: PLC0415 - charts: --help need not wait

    if is_unfinished(results):
        from ivsim.library.unfinished import finish  # noqa: PLC0415

        metrics = finish(results, say)
        reason = metrics["partial_reason"]
        print("\n".join(paragraph(f"finished; partial: {reason}" if reason else "finished", width_of())))
        print(f"report: {results / 'report.html'}")
        return
    from ivsim.report.figures import figures_apart  # noqa: PLC0415

    # Those of a ledger that is yet to be made are drawn behind it.
    with nullcontext() if ledger else figures_apart(results) as drawn:
        from ivsim.library.report_anew import report_anew  # noqa: PLC0415 - loads while the figures are drawn

        changed = report_anew(results, ledger=ledger, say=say, drawn=drawn)
    for one in changed:
        print("\n".join(paragraph(f"{one.name}: {one.now}, was {one.before}", width_of())))
    print(f"figures changed: {len(changed)}")
    print(f"report: {results / 'report.html'}")
