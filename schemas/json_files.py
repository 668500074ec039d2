"""JSON files that others may read while they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, value: dict[str, Any], *, sort_keys: bool = True) -> None:
    """Write a JSON file whole or not at all: readers never see half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2, sort_keys=sort_keys, default=str) + "\n")
    part.replace(path)
