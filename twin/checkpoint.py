"""Says whose a checkpoint is, so that a foreign or an older one is refused before Spark touches it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schemas.errors import Refusal
from twin import fold_jar
from twin.config import TwinConfig

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


def claim(config: TwinConfig) -> bool:
    """Take the checkpoint directory; True when it goes on from one. Refusal when it is not this twin's."""
    directory = config.checkpoint
    owner = directory / OWNER_FILE
    wanted = identity(config)
    if not directory.exists() or not any(directory.iterdir()):
        directory.mkdir(parents=True, exist_ok=True)
        owner.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
        return False
    _compare(owner, wanted)
    return True


def _compare(owner: Path, wanted: dict[str, Any]) -> None:
    try:
        found = json.loads(owner.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refusal(
            f"checkpoint_dir {owner.parent}: not a twin's checkpoint (no readable {OWNER_FILE}); name an empty directory"
        ) from error
    for key, value in wanted.items():
        if found.get(key) != value:
            raise Refusal(
                f"checkpoint_dir {owner.parent}: made with {key} = {found.get(key)!r}, this twin has {value!r};"
                " name an empty directory"
            )
