"""JSON files that others may read while they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schemas.errors import Refusal


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; Refusal names one that is missing, cut off or another thing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise Refusal(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refusal(f"{path}: no JSON object")
    return found


def write_json(path: Path, value: dict[str, Any], *, sort_keys: bool = True) -> None:
    """Write a JSON file whole or not at all: readers never see half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2, sort_keys=sort_keys, default=str) + "\n")
    part.replace(path)
