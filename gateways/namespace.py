"""Moves the calling thread into a network namespace; sockets and threads made before stay where they are."""

from __future__ import annotations

import ctypes
import os

from schemas.errors import Refusal

_CLONE_NEWNET = 0x40000000


def enter(namespace: str) -> None:
    """Enter a name under /run/netns, or a path (setns(2)); Refusal when it is missing or not allowed."""
    path = namespace if "/" in namespace else f"/run/netns/{namespace}"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal(f"network namespace {namespace}: {error.strerror}") from None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            raise Refusal(f"network namespace {namespace}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)
