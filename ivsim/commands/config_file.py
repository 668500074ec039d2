"""Options from a TOML file, by their names in docs/options.md, for the commands that run."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ivsim.deployment import NONE, Profile
from ivsim.options import OPTIONS, RUN, option_name
from schemas.errors import Refusal

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with options by the names of docs/options.md, such as loss_ratio = 0.05. What is"
        " typed, or in the environment (IVSIM_RUN_LOSS), goes before it.",
        rich_help_panel=RUN,
        metavar="PATH",
    ),
]


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# What a value beside the options of a run may be: the words for it, and the check.
TEXTS: Final = ("a list of texts", _is_text_list)
NUMBER: Final = ("a number", _is_number)
More = Mapping[str, tuple[str, Callable[[Any], bool]]]


def read_config(config: Path | None, more: More) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a file says of options of a run, and of the command's own; Refusal names file, key and what may be.

    Args:
        config: None says nothing.
        more: name of each option of the command's own -> TEXTS or NUMBER.
    """
    if config is None:
        return {}, {}
    try:
        said = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"--config {config}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"--config {config}: {error}") from None
    for name, value in said.items():
        if name not in OPTIONS and name not in more:
            raise Refusal(f"{config}: {name}: no such option; options are {', '.join([*OPTIONS, *more])}")
        if name in more and not more[name][1](value):
            raise Refusal(f"{config}: {name}: {value!r}: expected {more[name][0]}")
    own = {name: said.pop(name) for name in more if name in said}
    return said, own


def naming(
    config: Path | None, said: Mapping[str, Any], typed: Mapping[str, Any], profile: Profile = NONE
) -> Callable[[str], str]:
    """Return how refusals call a field: by its option, or by the file that it stands in."""

    def name(field: str) -> str:
        if field in typed:
            return option_name(field)
        return f"{config}: {field}" if field in said else profile.names.get(field, option_name(field))

    return name
