"""Moves the calling thread into a network namespace; sockets and threads made before stay where they are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schemas.errors import Refusal

ROOT: Final = Path("/run/netns")
CLONE_NEWNET: Final = 0x40000000
# os.setns came with Python 3.12.
_libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace: str) -> None:
    """Enter a name under /run/netns, or a path; Refusal when it is missing or not allowed."""
    try:
        handle = os.open(ROOT / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal(f"network namespace {namespace}: {error.strerror}") from None
    try:
        move(handle)
    except OSError as error:
        raise Refusal(f"network namespace {namespace}: {error.strerror}") from None
    finally:
        os.close(handle)


@contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """Have the calling thread in a namespace meanwhile; None stays. What it opens and starts there stays there."""
    if namespace is None:
        yield
        return
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(namespace)
        try:
            yield
        finally:
            move(own)
    finally:
        os.close(own)


def move(handle: int) -> None:
    """Move the calling thread into the namespace of an open file (setns(2)); OSError when not allowed."""
    if _libc.setns(handle, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
