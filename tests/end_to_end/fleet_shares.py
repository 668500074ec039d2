"""Generators on machines of their own, as far as network namespaces are machines: each on a wire to the broker's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ivsim.testbed.registry import RunRecord

SHARES = 4
# Until all runs are ready, on two cores with other work.
AHEAD_S = 60
ENDS_S = 240.0


@contextmanager
def networks(record: RunRecord) -> Iterator[tuple[str, list[str]]]:
    """Yield a namespace of the broker's, and one for each share on a wire of its own to it (addresses of RFC 5737)."""
    with ExitStack() as stack:
        names = [f"ivsim-{record.run_id}-{end}" for end in ("hub", *map(str, range(SHARES)))]
        for name in names:
            record.namespace(name)
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
            ip("-n", name, "link", "set", "lo", "up")
        hub, *shares = names
        for number, name in enumerate(shares):
            ip(
                *("-n", hub, "link", "add", f"to-{number}", "type", "veth"),
                *("peer", "name", "hub", "netns", name),
            )
            for namespace, device, host in ((hub, f"to-{number}", 1), (name, "hub", 2)):
                ip("-n", namespace, "address", "add", f"198.51.100.{4 * number + host}/30", "dev", device)
                ip("-n", namespace, "link", "set", device, "up")
        yield hub, shares


@contextmanager
def wire_to(hub: str, record: RunRecord) -> Iterator[str]:
    """Lay a wire from this host to the broker's namespace, and yield the broker's address on it."""
    device = f"iv{record.run_id}"[:15]
    ip("link", "add", device, "type", "veth", "peer", "name", "to-host", "netns", hub)
    try:
        ip("address", "add", f"198.51.100.{4 * SHARES + 2}/30", "dev", device)
        ip("link", "set", device, "up")
        ip("-n", hub, "address", "add", f"{hub_address(SHARES)}/30", "dev", "to-host")
        ip("-n", hub, "link", "set", "to-host", "up")
        yield hub_address(SHARES)
    finally:
        ip("link", "delete", device)


def hub_address(number: int) -> str:
    """Return the broker's address on the wire of a share (from 0)."""
    return f"198.51.100.{4 * number + 1}"


def soon() -> datetime:
    """Return a start at which all shares will be ready."""
    return (datetime.now(UTC) + timedelta(seconds=AHEAD_S)).replace(microsecond=0)


@contextmanager
def sending(
    shares: Sequence[str], port: int, start_at: datetime, fleet: Sequence[str], base: Path
) -> Iterator[list[subprocess.Popen[str]]]:
    """Run each share in its namespace, against the broker's port; its result is `share-N` below a directory, from 1.

    Args:
        fleet: words of `ivsim load` that say what the whole fleet sends.
    """
    runs = [
        subprocess.Popen(
            [
                *("ip", "netns", "exec", name, sys.executable, "-m", "ivsim.cli", "load"),
                *("--share", f"{number + 1}/{len(shares)}", "--start-at", start_at.isoformat()),
                *(
                    "--target",
                    f"mqtt://{hub_address(number)}:{port}",
                    "--target-consent",
                    hub_address(number),
                ),
                *("--topology", "peer", "--link", "direct", *fleet),
                *("--output", str(base / f"share-{number + 1}")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, name in enumerate(shares)
    ]
    try:
        yield runs
    finally:
        for run in runs:
            run.terminate()  # in order, so that it removes its namespaces
        for run in runs:
            try:
                run.wait(60)
            finally:
                run.kill()
                run.wait(10)
                assert run.stdout is not None
                run.stdout.close()


def await_shares(runs: Sequence[subprocess.Popen[str]]) -> None:
    """Return once all have ended in order."""
    told = [run.communicate(timeout=ENDS_S)[0] for run in runs]
    assert [run.returncode for run in runs] == [0] * len(runs), told


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
