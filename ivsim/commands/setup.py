"""`ivsim setup`: the jars of an installed wheel; ivsim.testbed.jars does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.testbed import jars
from schemas.errors import Refusal

BUNDLE = typer.Option(
    "--bundle", help="Write the jars that are here into this file, for a machine without network."
)
FROM = typer.Option("--from", help="Take the jars from such a file instead of fetching them.")


def command(
    bundle: Annotated[Path | None, BUNDLE] = None, from_: Annotated[Path | None, FROM] = None
) -> None:
    """Fetch what a run needs and pip does not bring: the jars of Kafka and of Spark's connector, by one Maven run.

    They go into the user's cache folder (XDG_CACHE_HOME, else ~/.cache), or where IVSIM_JARS says. `ivsim doctor` says
    which system packages are missing.
    """
    if bundle is not None and from_ is not None:
        raise Refusal("--bundle with --from: one of them")
    if bundle is not None:
        print(f"{bundle}: {jars.pack(bundle)} jars")
        return
    if from_ is not None:
        print(f"{jars.unpack(from_)}: the jars of {from_}")
        return
    jars.not_in_a_clone()
    if jars.fetched():
        print("The jars are there.")
        return
    print(f"{jars.fetch()}: the jars of Kafka and of Spark's connector")
