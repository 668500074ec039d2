"""The studies that come with the project, found by name, and who writes the report of each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ivsim.study.model import Study, read_study
from ivsim.study.store import Store
from ivsim.testbed.paths import PACKAGE_DIR, ROOT
from schemas.errors import Refusal

# study -> module:function that writes its report; every other study has the plain one
WRITERS = {"ifip2020": "ivsim.study.ifip.report:write_report"}
PLAIN_WRITER = "ivsim.study.report:write_report"


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
    path = Path(name)
    if path.suffix == ".toml":
        return read_study(path), path
    known = studies()
    if name not in known:
        raise Refusal(f"study {name!r}: neither a study.toml nor one of {', '.join(known)}")
    return read_study(known[name]), known[name]


def run_entry(study: Study, output: Path, *, quick: bool) -> Path:
    """Run a study that measures by itself; return the path of its report."""
    assert study.entry is not None
    module, _, function = study.entry.partition(":")
    path: Path = getattr(import_module(module), function)(output, quick=quick)
    return path


def writer_of(name: str) -> Callable[[Store, Path], Path]:
    """Return what writes a study's report."""
    module, _, function = WRITERS.get(name, PLAIN_WRITER).partition(":")
    writer: Callable[[Store, Path], Path] = getattr(import_module(module), function)
    return writer
