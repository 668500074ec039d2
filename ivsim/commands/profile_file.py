"""The option `--profile` of the commands that run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ivsim.options import CLOUD

ProfileFile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="A TOML file that says where Kafka, Spark and the target are (ivsim profile check). What is in --config, typed,"
        " or in the environment goes before it.",
        rich_help_panel=CLOUD,
        envvar="IVSIM_PROFILE",
        show_envvar=False,
        metavar="PATH",
    ),
]
