"""A folder of results: which runs and studies are in it, and the removal of some."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ivsim.labels import is_name
from ivsim.runs.directory import RESULTS, SCHEMA, RunDirectory
from schemas.errors import Refusal

STUDY_FILE = "study.json"


class Found(NamedTuple):
    """One result of a folder.

    Attributes:
        kind: "run" or "study".
        state: a run's validity; "running" while it goes on, "unfinished" where it was killed, "changed" where its figures are
            no longer as the run wrote them; "", for a study not known here.
        what: what was run, in words.
        bytes: of all its files.
        name: that a run was given.
        tags: likewise, KEY=VALUE each.
    """

    path: Path
    kind: str
    state: str
    what: str
    bytes: int
    name: str | None
    tags: tuple[str, ...]


def is_study(directory: Path) -> bool:
    """Say whether a directory holds the results of a study; a Refusal where it holds no results at all."""
    if (directory / STUDY_FILE).is_file():
        return True
    if not RunDirectory(directory).manifest.is_file():
        raise Refusal(f"{directory}: no result of a run or a study")
    return False


def is_unfinished(directory: Path) -> bool:
    """Say whether a run has begun and has not come to its end: it goes on, or was killed. Its scratch is the last to go."""
    run = RunDirectory(directory)
    return run.manifest.is_file() and run.work.exists()


def goes_on(directory: Path) -> bool:
    """Say whether the process of an unfinished run lives."""
    from ivsim.testbed.leftovers import owner_lives  # noqa: PLC0415 - what is finished needs no search for processes

    return is_unfinished(directory) and owner_lives(str(_read(RunDirectory(directory).manifest).get("run")))


def results_in(folder: Path) -> Iterator[Found]:
    """Yield the results in a folder and in its folder `studies`, by name; Refusal when there is no such folder."""
    try:
        entries = sorted(folder.iterdir())
        entries += sorted((folder / "studies").iterdir()) if (folder / "studies").is_dir() else []
    except OSError as error:
        raise Refusal(f"{folder}: {error.strerror}") from None
    for path in entries:
        if path.is_dir() and ((path / STUDY_FILE).is_file() or RunDirectory(path).manifest.is_file()):
            yield found_in(path)


def found_in(path: Path) -> Found:
    """Return what a directory of results says of itself, also of another version's; Refusal when it holds none."""
    if is_study(path):
        head = _read(path / STUDY_FILE)
        quick = ", quick" if head.get("quick") else ""
        return Found(path, "study", "", f"{head.get('name', 'unknown')}{quick}", _size(path), None, ())
    directory = RunDirectory(path)
    options = _read(directory.manifest).get("options") or {}
    spoken = [options.get("mix")] if options.get("mix") else [options.get("protocol"), options.get("mode")]
    words = (*spoken, options.get("topology"))
    what = " ".join(str(word) for word in words if word)
    share = f"share {options['share']} of " if options.get("share") else ""
    what += (
        f", {share}{options.get('vehicles', 'unknown')} vehicles, {options.get('duration_s', 'unknown')} s"
    )
    state = "unfinished"
    if goes_on(path):
        state = "running"
    elif directory.metrics.is_file() and not is_unfinished(path):
        state = str((_read(directory.metrics).get("validity") or {}).get("verdict", "unknown"))
        state = state if _as_written(directory) else "changed"
    tags = tuple(map(str, options.get("tags") or ()))
    return Found(path, "run", state, what, _size(path), options.get("name"), tags)


def named(path: Path) -> Path:
    """Return where a result is: the path where there is something, or else `results/NAME` for a run's name."""
    below = RESULTS / path
    return below if not path.exists() and is_name(str(path)) and below.is_dir() else path


def remove(path: Path) -> None:
    """Remove a result, also of a run that was killed; Refusal for anything else, and for a run that goes on."""
    if not is_study(path) and goes_on(path):
        raise Refusal(f"{path}: the run goes on")
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_written(run: RunDirectory) -> bool:
    """Return whether a run's figures are those that it wrote; those of pipes and of earlier versions have no checksums."""
    from ivsim.runs.checksums import check  # noqa: PLC0415 - a listing alone needs it

    manifest = _read(run.manifest)
    if manifest.get("kind") == "pipe" or manifest.get("schema") != SCHEMA:
        return True
    try:
        check(run.path, ["metrics.json", "manifest.json"])
    except (Refusal, OSError):
        return False
    return True


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
