"""Named network namespaces: made, listed, entered and removed; nothing else is configured here."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schemas.namespace import ROOT, move
from simulator.links.base import LinkError

PREFIX: Final = "ivsim-"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def create(name: str) -> None:
    """Make a named namespace with its loopback up and without IPv6 or forwarding.

    Raises:
        LinkError: when the name is taken or the kernel refuses.
    """
    if not _NAME.fullmatch(name):
        raise LinkError(f"namespace {name!r}: letters, digits, '.', '_' and '-' only")
    if (ROOT / name).exists():
        raise LinkError(f"namespace {name} exists already: another run, or `ivsim doctor --clean` removes it")
    from pyroute2 import netns  # noqa: PLC0415 - a sixth of a second, which readers of a link's log need not wait for

    try:
        # In a child: the calling process must not be moved into what it makes.
        netns.create(name)
    except OSError as error:
        raise LinkError(f"namespace {name}: {error.strerror}") from error
    with inside(name):
        for path, value in _SYSCTLS:
            try:
                Path("/proc/sys/net", path).write_text(value)
            except OSError:  # no IPv6 in this kernel, or a read-only /proc/sys as in a container
                continue


# No neighbour discovery, no router solicitations: only what the run sends may be on the wire.
_SYSCTLS: Final = (
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/ip_forward", "0"),
)


def remove(name: str) -> None:
    """Remove a namespace and every device in it; one that is gone already is no error."""
    if (ROOT / name).exists():
        from pyroute2 import netns  # noqa: PLC0415 - as above

        netns.remove(name)


def listed(prefix: str = PREFIX) -> list[str]:
    """Return the names of the namespaces that start with `prefix`."""
    if not ROOT.is_dir():
        return []
    return sorted(entry.name for entry in ROOT.iterdir() if entry.name.startswith(prefix))


def enter(name: str) -> None:
    """Move the calling thread into the namespace for good (a process about to start its work)."""
    handle = os.open(ROOT / name, os.O_RDONLY)
    try:
        _setns(handle, name)
    finally:
        os.close(handle)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Move the calling thread into the namespace and back; sockets made inside stay there."""
    home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    try:
        enter(name)
        try:
            yield
        finally:
            _setns(home, "where the thread came from")
    finally:
        os.close(home)


def _setns(handle: int, name: str) -> None:
    try:
        move(handle)
    except OSError as error:
        raise LinkError(f"namespace {name}: {error.strerror}") from error


def command_inside(name: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` inside the namespace (nsenter execs it: the pid stays)."""
    return ["nsenter", f"--net={ROOT / name}", "--", *argv]
