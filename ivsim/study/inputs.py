"""The files that a study's cells read: copied into its results, so that these work wherever they are, moved or packed.

A trace or a recorded drive is part of what was measured: report, export and compare read it again. Accounts and keys are
not: they are known by where they were, and nothing of them is in a directory that people pass on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ivsim.runs.checksums import digest
from schemas.errors import Refusal
from simulator.traces.recipes import BUNDLED

FOLDER: Final = "inputs"
# Fields, and axes, that may name files; `trace` several, with commas between.
COPIED: Final = ("trace", "rtt", "vehicle_log", "vehicle_mapping", "stations")
LEFT_WHERE_THEY_ARE: Final = (
    *("target_accounts", "target_ca", "target_certificates", "target_keys"),
    *("kafka_login", "agent_token_file"),
)
Inputs = Mapping[str, Mapping[str, str]]


def copied_in(fields: Iterator[Mapping[str, Any]], results: Path) -> dict[str, dict[str, str]]:
    """Copy what these fields name into a study's results; return, by its name there, where each file is now.

    Args:
        fields: scenarios, and axes with lists of values.
        results: of the study; a file goes below `inputs`, into a folder of its own, with the name that it has.
    """
    found: dict[str, dict[str, str]] = {}
    for one in fields:
        for field in (*COPIED, *LEFT_WHERE_THEY_ARE):
            for name in _names(one.get(field)):
                source = Path(name)
                if name in found or name in BUNDLED or _is_number(name) or not source.exists():
                    continue
                if field in LEFT_WHERE_THEY_ARE:
                    found[name] = {"path": str(source.absolute())}
                    continue
                if not source.is_file():
                    continue
                target = Path(FOLDER, str(len(found) + 1), source.name)
                (results / target).parent.mkdir(parents=True)
                try:
                    shutil.copyfile(source, results / target)
                except PermissionError:
                    raise Refusal(f"{source}: cannot be read") from None
                found[name] = {"file": str(target), "sha256": digest(results / target)}
    return found


def _names(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield from one.split(",")


def _is_number(name: str) -> bool:
    """Return whether a name is a number: an RTT that is one names no file."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def paths_of(inputs: Inputs, results: Path) -> dict[str, str]:
    """Return where each file is, by the name that the study has for it; Refusal for a copy that is gone or was changed."""
    found = {}
    for name, one in inputs.items():
        if "path" in one:
            found[name] = one["path"]
            continue
        path = results.absolute() / one["file"]
        if not path.is_file():
            raise Refusal(f"{path}: missing; it is {name}, which the study was measured with")
        if digest(path) != one["sha256"]:
            raise Refusal(f"{path}: changed since the study was measured with it (sha256)")
        found[name] = str(path)
    return found


def with_paths(fields: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a cell with the paths of files in the place of their names."""
    return {
        field: ",".join(paths.get(name, name) for name in value.split(","))
        if field in (*COPIED, *LEFT_WHERE_THEY_ARE) and isinstance(value, str)
        else value
        for field, value in fields.items()
    }
