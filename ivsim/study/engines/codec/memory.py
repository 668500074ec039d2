"""Peak memory of one format in a process of its own (getrusage); starts that process, reads one line."""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
import sys
from typing import Final, NamedTuple

from ivsim.study.corpus import corpus
from schemas.formats import FORMATS
from schemas.messages import CurrentStatus

DIRECTIONS: Final = ("encode", "decode")


class Peak(NamedTuple):
    """Resident memory of a process before and at the peak of its work, KiB.

    The process keeps what it makes, so that (peak - before) / messages is what one message costs.
    """

    format: str
    direction: str
    messages: int
    before_kib: int
    peak_kib: int


def peak(name: str, direction: str, messages: int, seed: int) -> Peak:
    """Return the peak of a fresh process that encodes living messages, or decodes payloads, and keeps all."""
    command = [
        sys.executable,
        "-m",
        "ivsim.study.engines.codec.memory",
        name,
        direction,
        str(messages),
        str(seed),
    ]
    # Through a shell: Linux gives a new program its parent's peak (exec keeps it), and a shell's is small.
    script = f"{shlex.join(command)}; exit $?"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    before_kib, peak_kib = json.loads(done.stdout)
    return Peak(name, direction, messages, before_kib, peak_kib)


def _resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(name: str, direction: str, messages: int, seed: int) -> None:
    """Do the work and print [KiB before, KiB at the peak]."""
    encode, decode = FORMATS[name].encode, FORMATS[name].decode
    # Of few vehicles, and far apart: what is measured must not fit into what making them has freed.
    statuses = [CurrentStatus.of(s.status.document()) for s in corpus(9, seed)]
    payloads = [encode(status) for status in statuses]
    ready = [decode(payloads[k % len(payloads)]) for k in range(messages)] if direction == "encode" else []
    for status in ready:
        status.document()
        status.watch()
    kept: list[object] = []
    before_kib = _resident_kib()
    if direction == "encode":
        kept += [encode(status) for status in ready]
    else:
        kept += [decode(payloads[k % len(payloads)]) for k in range(messages)]
    assert len(kept) == messages
    print(json.dumps([before_kib, _resident_kib()]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
