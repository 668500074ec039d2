"""Whether anybody still speaks TCP in a namespace: sockets of dead processes go on sending what was queued."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from simulator.links.namespaces import inside

# States of include/net/tcp_states.h in which the kernel sends nothing by itself: TIME_WAIT and LISTEN.
_QUIET: Final = frozenset({"06", "0A"})
_POLL_S: Final = 0.02


def silent(namespace: str, timeout_s: float) -> bool:
    """Return whether every TCP connection in the namespace is over, after `timeout_s` at the latest."""
    deadline_s = time.monotonic() + timeout_s
    while _speaking(namespace):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)  # the kernel tells nobody that an orphaned socket is gone
    return True


def _speaking(namespace: str) -> bool:
    with inside(namespace):
        lines = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[3] not in _QUIET for line in lines)
