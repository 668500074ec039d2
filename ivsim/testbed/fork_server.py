"""Forks processes that have imported everything: `python -m ivsim.testbed.fork_server MODULE...`.

Standard input is a socket of the owner's. Each message on it names a module, whose `main` a new process calls, and carries
three descriptors, the process's own standard streams. The answer is its id, and "adopted" once the process has become a
child of the owner, not of this one: the owner alone ends and reaps it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from schemas.control import OWNER_DIED
from schemas.namespace import enter

STREAMS: Final = 3
MESSAGE_BYTES: Final = 65_536
_PR_SET_PDEATHSIG: Final = 1
_ADOPTION_LOOK_S: Final = 0.001


def main(modules: Sequence[str]) -> None:
    """Import, say "ready", and fork as asked until the owner closes the socket."""
    for name in modules:
        import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        sys.exit(f"{', '.join(modules)}: imported with {threads - 1} threads, which a fork would not have")
    owner = os.getppid()
    with socket.socket(fileno=os.dup(0)) as owners:
        owners.send(b'"ready"')
        while True:
            message, streams, _, _ = socket.recv_fds(owners, MESSAGE_BYTES, STREAMS)
            if not message:
                return
            if os.fork() == 0:
                break
            for stream in streams:
                os.close(stream)
            os.wait()
            owners.send(b'"adopted"')
        # Whose parent has ended is adopted by the owner, which is a subreaper meanwhile.
        if (pid := os.fork()) > 0:
            owners.send(str(pid).encode())
            os._exit(0)
    asked = json.loads(message)
    _become(asked, streams, owner)
    import_module(asked["module"]).main(asked["arguments"])


def _become(asked: dict[str, Any], streams: Sequence[int], owner: int) -> None:
    """Have the owner as a parent, and what a process has that the owner has started by itself."""
    between = os.getppid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    while os.getppid() == between and between != owner:
        time.sleep(_ADOPTION_LOOK_S)  # the kernel tells no process that it has another parent
    if asked["namespace"] is not None:
        enter(asked["namespace"])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, OWNER_DIED)
    if os.getppid() != owner:
        sys.exit("the owner is gone")
    os.setsid()
    gc.collect()  # it writes to every page that is shared with others: not while a clock runs


if __name__ == "__main__":
    main(sys.argv[1:])
