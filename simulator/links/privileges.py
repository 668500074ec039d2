"""The right to make namespaces: there already, or gained in a user namespace of our own, or refused."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute

from schemas.errors import Refusal
from schemas.namespace import ROOT

CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN = 12, 13, 21
MARK: Final = "IVSIM_USER_NAMESPACE"
UNSHARE: Final = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--propagation",
    "private",
    "--",
)


def missing_capabilities(status: str) -> list[str]:
    """Return the names of the capabilities that a /proc/self/status text lacks."""
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    needed = {"CAP_NET_ADMIN": CAP_NET_ADMIN, "CAP_NET_RAW": CAP_NET_RAW, "CAP_SYS_ADMIN": CAP_SYS_ADMIN}
    return [name for name, bit in needed.items() if not held >> bit & 1]


def ensure_privileges() -> None:
    """Return when this process may make namespaces; may start the whole command again to get there.

    Root has the right. Others get it in a user namespace of their own (`unshare -Urmn`), in which the same
    command line runs once more, with a private /run/netns and a loopback of its own: what it starts sees
    itself, a server outside (`--kafka HOST:PORT`) is out of reach. This process is replaced.

    Raises:
        Refusal: neither is possible; it says what to do.
    """
    missing = missing_capabilities(Path("/proc/self/status").read_text())
    if not missing:
        if os.environ.pop(MARK, None):
            _private_directory()
        return
    if MARK in os.environ:
        raise Refusal(
            f"the user namespace lacks {', '.join(missing)}: run as root, or outside of a container"
        )
    if (reason := _why_no_user_namespace()) is not None:
        raise Refusal(
            f"no right to make network namespaces ({', '.join(missing)} missing; unshare: {reason}): run as "
            "root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0), or start a container with --privileged"
        )
    os.environ[MARK] = "1"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - takes our place


def _why_no_user_namespace() -> str | None:
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed (apt-get install util-linux)"
    return None if done.returncode == 0 else done.stderr.strip()


def _private_directory() -> None:
    """Mount an empty directory where named namespaces live: root's own is not ours to write."""
    libc = ctypes.CDLL(None, use_errno=True)
    target = ROOT if ROOT.is_dir() else ROOT.parent
    if libc.mount(b"tmpfs", str(target).encode(), b"tmpfs", 0, None) != 0:
        raise Refusal(f"cannot mount a private {target}: {os.strerror(ctypes.get_errno())}")
    ROOT.mkdir(exist_ok=True)
    with IPRoute() as ip:
        # setns back into a network namespace needs rights over it: the thread's home must be ours too.
        ip.link("set", index=1, state="up")
