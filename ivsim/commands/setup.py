"""`ivsim setup`: the jars of an installed wheel, and those that set-up leaves out; ivsim.testbed.jars does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.testbed import jars
from ivsim.testbed.paths import JARS, LEFT_OUT
from schemas.errors import Refusal

PART = typer.Argument(
    metavar="PART", help="What set-up leaves out: s3, an object store for Spark's checkpoints (14 MB)."
)
BUNDLE = typer.Option(
    "--bundle", help="Write the jars that are here into this file, for a machine without network."
)
FROM = typer.Option("--from", help="Take the jars from such a file instead of fetching them.")


def command(
    part: Annotated[str | None, PART] = None,
    bundle: Annotated[Path | None, BUNDLE] = None,
    from_: Annotated[Path | None, FROM] = None,
) -> None:
    """Fetch what a run needs and pip does not bring: the jars of Kafka and of Spark's connector, by one Maven run.

    They go into the user's cache folder (XDG_CACHE_HOME, else ~/.cache), or where IVSIM_JARS says. `ivsim doctor` says
    which system packages are missing.
    """
    if part is not None and part not in LEFT_OUT:
        raise Refusal(f"PART {part!r}: allowed is {', '.join(LEFT_OUT)}, or none for what every run needs")
    if bundle is not None and from_ is not None:
        raise Refusal("--bundle with --from: one of them")
    kinds = JARS if part is None else (part,)
    whose = "Kafka and of Spark's connector" if part is None else part
    if bundle is not None:
        print(f"{bundle}: {jars.pack(bundle, kinds)} jars")
        return
    if from_ is not None:
        print(f"{jars.unpack(from_, kinds)}: the jars of {from_}")
        return
    if part is None:
        jars.not_in_a_clone()
    if jars.fetched(kinds):
        print("The jars are there.")
        return
    print(f"{jars.fetch(kinds)}: the jars of {whose}")
