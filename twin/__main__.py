"""`python -m twin CONFIG.json`: the twin as a child process, ruled by lines of JSON on its standard input."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import Any

from schemas.control import commands, emit
from schemas.errors import Refusal
from twin.config import read_twin_config
from twin.process import QueryDiedError, TwinProcess, report_error

_CHECK_INTERVAL_S = 0.5


def _keep_stdout() -> None:
    # The JVM and its workers inherit descriptor 1; the owner's line protocol must stay ours alone.
    ours = os.dup(1)
    os.set_inheritable(ours, False)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(ours, "w", buffering=1, encoding="utf-8")


def _read_commands(inbox: queue.Queue[dict[str, Any] | None]) -> None:
    try:
        for command in commands():
            inbox.put(command)
    except (ValueError, TypeError) as error:
        report_error(error)
    inbox.put(None)


def _serve(process: TwinProcess, inbox: queue.Queue[dict[str, Any] | None]) -> None:
    died = False
    while True:
        try:
            command = inbox.get(timeout=_CHECK_INTERVAL_S)
        except queue.Empty:
            if not died:
                died = _died(process)
            continue
        if command is None or command.get("command") == "stop":
            return
        _obey(process, command)


def _died(process: TwinProcess) -> bool:
    # The owner decides what a dead query means; the session stays for the ledger.
    try:
        process.check()
    except QueryDiedError as error:
        report_error(error)
        return True
    return False


def _obey(process: TwinProcess, command: dict[str, Any]) -> None:
    name = command.get("command")
    if name == "status":
        emit("progress", **process.progress())
    elif name == "ledger":
        try:
            emit("ledger", **process.ledger(list(command.get("partial", []))))
        except (Refusal, ArithmeticError) as error:
            emit("ledger", error=str(error))
    else:
        emit("error", message=f"unknown command {name!r}: allowed are status, ledger, stop")


def main(arguments: list[str]) -> int:
    """Run until the owner says stop, dies or sends SIGTERM; 2 for bad input, 1 when a part failed."""
    if len(arguments) != 1:
        print("usage: python -m twin CONFIG.json", file=sys.stderr)
        return 2
    _keep_stdout()
    inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
    signal.signal(signal.SIGTERM, lambda *_: inbox.put(None))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
    finally:
        if process is not None:
            process.close()
    emit("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
