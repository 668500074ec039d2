"""`python -m twin CONFIG.json`: the twin as a child process, ruled by lines of JSON on its standard input.

One session serves many runs, one after the other: `open` with another configuration leaves the run so far.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from typing import Any

from schemas.control import commands, emit, on_sigterm
from schemas.errors import Refusal
from twin.config import read_twin_config
from twin.process import TwinProcess, report_error
from twin.run_queries import QueryDiedError

_CHECK_INTERVAL_S = 0.5
# So long may what is going on take once the owner is gone: Spark waits for a Kafka that may have gone with it.
ORPHAN_S = 20.0
# A signal's handler puts into it, too, and may break into another `put`: of Python's queues this one stands that.
Inbox = queue.SimpleQueue[dict[str, Any] | None]


def _keep_stdout() -> None:
    # The JVM and its workers inherit descriptor 1; the owner's line protocol must stay ours alone.
    ours = os.dup(1)
    os.set_inheritable(ours, False)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(ours, "w", buffering=1, encoding="utf-8")


def _read_commands(inbox: Inbox) -> None:
    """Pass on the owner's commands; once there are no more, the process ends, whatever it is at."""
    for command in commands("status", "finish", "open", "leave", "stop"):
        inbox.put(command)
    inbox.put(None)
    # The process has this long to end by itself; it may be in a call that nobody answers any more.
    time.sleep(ORPHAN_S)
    os._exit(1)


def _serve(process: TwinProcess, inbox: Inbox) -> None:
    died: QueryDiedError | None = None
    told = False  # that what has died stays dead
    while True:
        try:
            command = inbox.get(timeout=_CHECK_INTERVAL_S)
        except queue.Empty:
            if not told:
                died = died or _found_dead(process)
                if died is not None and process.may_open_again():
                    died = _again(process, died)
                told = died is not None and not process.may_open_again()
                if told and died is not None:
                    # The owner decides what a dead query means; the session stays for the next run.
                    report_error(died)
            continue
        if command is None or command["command"] == "stop":
            return
        if command["command"] in {"open", "finish", "leave"}:  # what has died is over with its run
            died, told = None, False
        _obey(process, command)


def _found_dead(process: TwinProcess) -> QueryDiedError | None:
    try:
        process.check()
    except QueryDiedError as error:
        return error
    return None


def _again(process: TwinProcess, died: QueryDiedError) -> QueryDiedError | None:
    """Open what has died once more; return why it is still dead, None where it is not."""
    try:
        emit("reopened", **process.again(died))
    except QueryDiedError as error:  # such as the other end of a shuffle that was still closing
        return error
    return None


def _obey(process: TwinProcess, command: dict[str, Any]) -> None:
    name = command["command"]
    if name == "status":
        emit("progress", **process.progress())
    elif name == "finish":
        emit("finished", problems=process.finish(int(command.get("rejected", 0))))
    elif name == "open":
        _open(process, str(command.get("config")))
    elif name == "leave":
        process.leave()
        emit("left")


def _open(process: TwinProcess, path: str) -> None:
    """Go on to another run; what prevents it is told, and the session stays for one that can be."""
    try:
        emit("ready", **process.reopen(read_twin_config(path)))
    except (Refusal, QueryDiedError, TimeoutError) as error:
        process.leave()
        report_error(error)


def main(arguments: list[str]) -> int:
    """Run until the owner says stop, dies or sends SIGTERM; 2 for bad input, 1 when a part failed."""
    if len(arguments) != 1:
        print("usage: python -m twin CONFIG.json", file=sys.stderr)
        return 2
    _keep_stdout()
    inbox: Inbox = queue.SimpleQueue()
    on_sigterm(lambda: inbox.put(None))
    process: TwinProcess | None = None
    try:
        process = TwinProcess(read_twin_config(arguments[0]))
        threading.Thread(target=_read_commands, args=(inbox,), daemon=True).start()
        emit("ready", **process.open())
        _serve(process, inbox)
    except Refusal as error:
        report_error(error)
        print(error, file=sys.stderr)
        return 2
    except (QueryDiedError, TimeoutError) as error:
        report_error(error)
        return 1
    except Exception as error:
        # In the log, the reason stands above hundreds of lines of Java's.
        report_error(error, None if process is None else process.java_end())
        raise
    finally:
        if process is not None:
            process.close()
    emit("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
