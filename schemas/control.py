"""The lines of JSON by which a run and its child processes talk; it holds no state of a run.

The end of standard input tells a child that its owner is gone. That holds for what an owner can keep open: a pipe, a
socket, a terminal. A service manager gives /dev/null, which is at its end from the beginning and says nothing of any
owner: such a process runs until it gets a signal.

Neither end can stop the other's work. An owner that does not read misses reports of progress (schemas.outlet); a line of
the owner's that is no command is told and left out, and the next one is obeyed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from schemas.json_files import write_json
from schemas.outlet import ERR, OUT, PATIENCE_S

# Longer than every command; the rest of a longer line is not read.
MAX_COMMAND_BYTES: Final = 65_536
_SHOWN_BYTES: Final = 80
# Names the file in which a process leaves what it says at its end, for whoever comes when its owner is gone. What this
# process starts has an end of its own.
LAST_WORDS: Final = "IVSIM_LAST_WORDS"
_LAST_WORDS: Final = os.environ.pop(LAST_WORDS, None)
# The kernel's word for an owner's death (prctl(2), PR_SET_PDEATHSIG). It comes once for each thread of the owner through
# which the child is handed on, so it must not count as a second signal, which ends a process at once.
OWNER_DIED: Final = signal.SIGUSR1
# So long a SIGTERM that comes again is the same one: a service manager sends it to child and owner, who passes it on.
SAME_SIGNAL_S: Final = 1.0


def heeded(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Return those signals that this process was not started to ignore, as `nohup` and a shell's `&` have it."""
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)


def on_sigterm(stop: Callable[[], object]) -> None:
    """Let the first SIGTERM call `stop`, in a process without an event loop; a second one ends the process at once.

    Within `SAME_SIGNAL_S` it is still the first one; behind that it has no handler any more, so that it ends what runs no
    Python, too. The owner's death calls `stop`, too, however often it is told. SIGINT is ignored: a Ctrl-C is the owner's to
    heed. The process may not use SIGALRM otherwise.
    """

    def first(*_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGALRM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        signal.setitimer(signal.ITIMER_REAL, SAME_SIGNAL_S)
        atexit.register(
            signal.setitimer, signal.ITIMER_REAL, 0
        )  # an alarm behind the last handler would kill
        stop()

    signal.signal(signal.SIGTERM, first)
    signal.signal(OWNER_DIED, lambda *_: stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def emit(event: str, **fields: Any) -> None:
    """Tell the owner one event, a line of JSON; `done` is left in the file for last words, too.

    `progress` is dropped while the owner does not read, anything else waits for `outlet.PATIENCE_S`. What cannot be
    written stops nothing: where the owner is gone, end of file on standard input ends this process in order.
    """
    line = json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n"
    if event == "done" and _LAST_WORDS is not None:
        with contextlib.suppress(OSError):  # a disk that takes no more
            write_json(Path(_LAST_WORDS), fields)
    told = OUT.write(line, 0.0 if event == "progress" else PATIENCE_S)
    if not told and event != "progress":
        ERR.write(f"event not delivered to the owner: {event}\n", 0.0)


def has_owner() -> bool:
    """Say whether standard input is something that an owner holds open: a pipe, a socket or a terminal."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):  # closed before this process began, or since
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def failure_line(context: dict[str, Any]) -> str:
    """Return in one line what an event loop's exception handler is given."""
    error = context.get("exception")
    return str(context["message"]) if error is None else f"{context['message']}: {error!r}"


def commands(*allowed: str) -> Iterator[dict[str, Any]]:
    """Yield the owner's commands, blocking; ends when the owner closes the pipe or dies, never without an owner.

    Args:
        allowed: their names; none takes every name.
    """
    if not has_owner():
        threading.Event().wait()
    # Not by Python's own buffer: a thread that waits in it at the end of the process makes Python abort.
    descriptor, lines = sys.stdin.fileno(), Lines()
    while data := os.read(descriptor, MAX_COMMAND_BYTES):
        yield from (found for line in lines.cut(data) if (found := command(line, allowed)) is not None)
    if (found := command(lines.rest, allowed)) is not None:
        yield found


class Lines:
    """Cuts what comes into lines.

    Attributes:
        rest: of a line that has not ended; of one that is too long as much as tells it by its length.
    """

    def __init__(self) -> None:
        self.rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`."""
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: MAX_COMMAND_BYTES + 1]
        return lines


def command(line: bytes, allowed: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the command in a line; None for an empty line, and for one that is no command, which is told."""
    if not line.strip():
        return None
    if len(line) > MAX_COMMAND_BYTES:
        refuse_command(f"longer than {MAX_COMMAND_BYTES} bytes")
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    name = value.get("command") if isinstance(value, dict) else None
    if not isinstance(name, str):
        shown = line[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        refuse_command(f'{shown!r} is no JSON object with a text "command"')
        return None
    if allowed and name not in allowed:
        refuse_command(f"unknown command {name[:_SHOWN_BYTES]!r}: allowed are {', '.join(allowed)}")
        return None
    assert isinstance(value, dict)
    return value


def refuse_command(why: str) -> None:
    """Tell the owner, and the log, of a line that is not obeyed; the process goes on."""
    emit("refused", message=why)
    ERR.write(f"a line on standard input: {why}\n", 0.0)
