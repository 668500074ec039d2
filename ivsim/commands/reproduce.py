"""`ivsim reproduce`: repeats a published study and prints, claim by claim, what agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.study.catalogue import run_entry, study_named
from ivsim.study.model import cells_of
from ivsim.study.store import Store

EXIT_FAILED = 1

app = typer.Typer(no_args_is_help=True, help="Repeat a published study, claim by claim.")


@app.callback()
def _group() -> None:
    """Keep the paper's name a word of its own, as further papers may follow."""


@app.command()
def ifip2020(
    quick: Annotated[bool, typer.Option("--quick", help="At most ten minutes: small samples.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Directory of results; one with results is gone on with.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Persson Proos and Carlsson, IFIP Networking 2020: MQTT, AMQP, CoAP on a lossy cellular link."""
    from ivsim.study.execution import default_output, run_study  # noqa: PLC0415 - not before it is needed
    from ivsim.study.ifip.report import SERIALISATION, claims_text, failed, write_report  # noqa: PLC0415

    study, path = study_named("ifip2020")
    where = output or default_output("ifip2020", quick=quick)
    if (where / "study.json").is_file():
        store = Store.open(where)
        store.check_versions()
    else:
        store = Store.create(where, "ifip2020", study, quick=quick)
    run_study(store, cells_of(store.study, str(path), quick=store.quick), quiet=quiet)
    formats = where / SERIALISATION
    if not (formats / "results.json").is_file():
        run_entry(study_named("serialisation")[0], formats, quick=store.quick)
    written = write_report(store, where)
    print(claims_text(store))
    print(f"\n{written}")
    raise typer.Exit(EXIT_FAILED if failed(store) else 0)
