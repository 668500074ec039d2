"""The studies that come with the project, found by name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from ivsim.testbed.paths import PACKAGE_DIR, ROOT
from schemas.errors import Refusal

if TYPE_CHECKING:
    from ivsim.study.model import Study


def folder() -> Path:
    """Return where the studies lie, in a clone and in an installed wheel."""
    for candidate in (ROOT / "studies", PACKAGE_DIR / "data" / "studies"):
        if candidate.is_dir():
            return candidate
    raise Refusal(f"the studies are missing: neither {ROOT}/studies nor the package holds them")


def studies() -> dict[str, Path]:
    """Return name -> study.toml."""
    return {path.parent.name: path for path in sorted(folder().glob("*/study.toml"))}


def study_named(name: str) -> tuple[Study, Path]:
    """Return a study by its name or file, and the file; Refusal lists the names for an unknown one."""
    from ivsim.study.model import read_study  # noqa: PLC0415 - a list of titles needs no engine

    path = Path(name)
    if path.suffix == ".toml":
        return read_study(path), path
    known = studies()
    if name not in known:
        raise Refusal(f"study {name!r}: neither a study.toml nor one of {', '.join(known)}")
    return read_study(known[name]), known[name]


def name_of(path: Path) -> str:
    """Return what a study in a file is called: its folder, or the file where it is no `study.toml`."""
    return path.resolve().parent.name if path.name == "study.toml" else path.stem


def title_of(path: Path) -> str:
    """Return a study's title without checking the rest, which needs its engine."""
    try:
        title = tomllib.loads(path.read_text()).get("title")
    except (OSError, ValueError) as error:
        raise Refusal(f"{path}: {error}") from None
    if not isinstance(title, str):
        raise Refusal(f"{path}: title: a text is wanted")
    return title
