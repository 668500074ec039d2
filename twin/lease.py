"""One twin a checkpoint: a lease beside it that its holder renews.

Spark notices a second query on a checkpoint at a batch's end alone: in real time two twins write side by side for as long as a
batch lasts (300 s). So whoever opens a checkpoint takes its lease first: a file with its name, written anew each RENEW_S.

* A lease that was not renewed for LEASE_S has no holder. Its age is a difference of two stamps of the store's own clock
  (the lease's, and that of a file written to compare), so that no clock of another machine is believed.
* Who takes it writes its name, waits a moment, and has it if that name is still there: of two at once the later writer has it.
* A holder that finds another's name, or could not write for LOST_S, has lost it and must stop: LOST_S is less than LEASE_S, so
  that it stops before another one begins.

On a directory of this machine the kernel keeps the lease: a lock on a file, which ends with the process, kill -9 included.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import IO, Final, Protocol

from schemas.errors import Refusal
from twin.checkpoint_files import Files
from twin.place import Place

log = logging.getLogger("twin")
NAME: Final = "ivsim.lease"
RENEW_S: Final = 3.0
LOST_S: Final = 9.0
LEASE_S: Final = 12.0
_SETTLED_S: Final = 0.5


class Lease(Protocol):
    """A checkpoint that this twin alone may open; `close` gives it back and may be called twice."""

    def lost(self) -> str | None:
        """Return why this twin may no longer write, None while it may."""
        ...

    def close(self) -> None: ...


class LockedDirectory:
    """The lease of a directory of this machine; Refusal where another twin has it."""

    def __init__(self, place: Place) -> None:
        path = Path(place) / NAME
        self._file: IO[bytes] = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise Refusal(f"checkpoint_dir {place}: another twin has it open") from None

    def lost(self) -> str | None:
        return None

    def close(self) -> None:
        self._file.close()


class RenewedLease:
    """The lease of a URI, renewed by a thread; Refusal where another twin has it.

    Args:
        files: of the checkpoint.
        place: the checkpoint, for the refusal.
    """

    def __init__(self, files: Files, place: Place) -> None:
        self._files, self._place = files, place
        self._name = f"{socket.gethostname()} process {os.getpid()} {uuid.uuid4().hex[:8]}"
        # Of the moment before the store was asked: it may stamp a file when the writing begins.
        self._renewed_s = self._take()
        self._lost: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def lost(self) -> str | None:
        # A store that does not answer may hold the thread for minutes.
        if self._lost is None and time.monotonic() - self._renewed_s > LOST_S:
            self._lost = f"the checkpoint's lease could not be renewed for {LOST_S:g} s"
        return self._lost

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join(LOST_S)
        if not self._thread.is_alive() and self._lost is None and self._holder() == self._name:
            self._files.remove(NAME)

    def _take(self) -> float:
        """Write the lease, which nobody has; return when that began."""
        age_s = self._files.age_s(NAME)
        if age_s is not None and age_s < LEASE_S:
            # A twin that was killed a moment ago leaves a lease that ends by itself.
            time.sleep(min(LEASE_S, LEASE_S - age_s))
            age_s = self._files.age_s(NAME)
            if age_s is not None and age_s < LEASE_S:
                raise Refusal(f"checkpoint_dir {self._place}: another twin has it open: {self._holder()}")
        begun_s = time.monotonic()
        self._write()
        # Who found no holder at the same moment has written by then; later ones find this one's name.
        time.sleep(_SETTLED_S)
        if (holder := self._holder()) != self._name:
            raise Refusal(
                f"checkpoint_dir {self._place}: another twin opened it at the same moment: {holder}"
            )
        return begun_s

    def _renew(self) -> None:
        while self._lost is None and not self._closed.wait(RENEW_S):
            begun_s = time.monotonic()
            try:
                if (holder := self._holder()) != self._name:
                    self._lost = f"another twin has taken the checkpoint: {holder}"
                    return
                self._write()
                # Whoever stood still between reading and writing may have written over another one's name.
                if self.lost() is None:
                    self._renewed_s = begun_s
            except Exception as error:  # noqa: BLE001 - a store that does not answer, in any of Java's ways
                log.warning("the checkpoint's lease: %s", str(error).partition("\n")[0][:200])

    def _write(self) -> None:
        self._files.write(NAME, json.dumps({"holder": self._name, "written_ns": time.time_ns()}).encode())

    def _holder(self) -> str | None:
        body = self._files.read(NAME)
        if body is None:
            return None
        try:
            return str(json.loads(body)["holder"])
        except (ValueError, KeyError, TypeError):
            return "someone unknown"


def take(files: Files, place: Place) -> Lease:
    """Return the lease of a checkpoint, which has to be there; Refusal where another twin has it."""
    return RenewedLease(files, place) if place.remote else LockedDirectory(place)
