"""What a command says on standard error: lines for people, or with `--progress json` an object a line for programs.

Errors and refusals are among these objects, so that a program that follows a command reads JSON alone.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from typing import Any, Final

PROGRESS: Final = "--progress"
TERMINAL: Final = "terminal"
JSON: Final = "json"


_BEGAN_S: Final = time.monotonic()


def at_s() -> float:
    """Return for how long the command has run, in s."""
    return round(time.monotonic() - _BEGAN_S, 3)


def for_programs() -> bool:
    """Return whether this process was asked for objects, also where what was asked is refused."""
    words = sys.argv[1:]
    return f"{PROGRESS}={JSON}" in words or (PROGRESS, JSON) in pairwise(words)


def say(event: str, text: str, **more: Any) -> None:
    """Print a text: as it is, or as an object with `event`, `at_s`, `text` and what more is known of it."""
    line = json.dumps({"event": event, "at_s": at_s(), "text": text, **more}) if for_programs() else text
    print(line, file=sys.stderr, flush=True)


def say_error(text: str) -> None:
    """Print what went wrong, or is refused, in one line."""
    say("error", text if for_programs() else f"ivsim: {text}")
