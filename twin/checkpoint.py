"""Says whose a checkpoint is, so that a foreign or an older one is refused before Spark touches it."""

from __future__ import annotations

import json
import uuid
from typing import Any

from schemas.errors import Refusal
from twin import fold_jar
from twin.checkpoint_files import Files
from twin.config import TwinConfig
from twin.place import Place

OWNER_FILE = "ivsim.json"
# Raise it when the fold's state, the record headers or the queries' operators change.
STATE_VERSION = 4


def identity(config: TwinConfig) -> dict[str, Any]:
    """Return what must be the same when a twin goes on from a checkpoint."""
    return {
        "state_version": STATE_VERSION,
        "fold": fold_jar.digest(),
        "topics_prefix": config.topics_prefix,
        "trigger": config.trigger,
        "shuffle_partitions": config.shuffle_partitions,
        "live_window_s": config.live_window_s,
    }


def claim(config: TwinConfig, files: Files) -> bool:
    """Take the checkpoint, whose `files` these are; True when it goes on from one. Refusal when it is not this twin's."""
    wanted = identity(config)
    if files.empty():
        _write(files, wanted)
        return False
    _compare(config.checkpoint, files, wanted)
    return True


def name_of(files: Files) -> str:
    """Return the name of a checkpoint that this twin alone has open, which no other has; give it one where it has none."""
    found = json.loads(files.read(OWNER_FILE) or b"{}")
    if "name" not in found:
        found["name"] = uuid.uuid4().hex[:12]
        _write(files, found)
    return str(found["name"])


def _write(files: Files, said: dict[str, Any]) -> None:
    files.write(OWNER_FILE, (json.dumps(said, indent=1) + "\n").encode())


def _compare(place: Place, files: Files, wanted: dict[str, Any]) -> None:
    try:
        found = json.loads(files.read(OWNER_FILE) or b"")
    except (OSError, ValueError) as error:
        raise Refusal(
            f"checkpoint_dir {place}: not a twin's checkpoint (no readable {OWNER_FILE}); name an empty directory"
        ) from error
    for key, value in wanted.items():
        if found.get(key) != value:
            raise Refusal(
                f"checkpoint_dir {place}: made with {key} = {found.get(key)!r}, this twin has {value!r};"
                " name an empty directory"
            )
