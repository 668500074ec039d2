"""A computer of the run's own whose power can be cut: a user-mode Linux with a disk, on which a server stands.

What kill -9 leaves in the page cache is not lost: the kernel that holds it lives on. Here that kernel is killed. What its
disk, a file of the host, had been given stays; all else is gone, as when the power fails. It reads the host's files
(hostfs, read-only), so that the server's program and packages are the host's own; the server's directory is the disk
(ext4), filled with what lay there before the first start.

Before its first server starts it looks whether its kernel keeps the registers that programs compute in, which not every
processor lets it: where a server would die of nonsense, the machine is refused.

Its only wire ends in a namespace of its own: `inside(machine.namespace)` reaches the server at `machine.address`.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from pyroute2 import IPRoute

from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.programs import program, where
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.namespace import inside
from simulator.links import addressing, wiring
from simulator.links.uml import router as uml
from simulator.links.uml.registers import REFUSED

DISK_MB: Final = 4_096
MKFS: Final = "mkfs.ext4"
_DEVICE, _WIRE = "ctl0", "rx0"
_WIRE_MAC: Final = "02:00:c6:15:00:04"
# When the server ends, so does the machine, and nothing that is not on the disk yet gets there.
_INIT: Final = """#!/bin/sh
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
off() {{ echo o >/proc/sysrq-trigger; exec sleep 60; }}
{check} || off
ip link set lo up
ip addr add {address}/{prefix} dev vec0
ip link set vec0 up
ip neigh replace {peer} lladdr {mac} dev vec0 nud permanent
mount -t ext4 /dev/ubda {directory}
cd {directory}
set +e
{command}
echo "the server on the machine ended with exit code $?"
off
"""


def missing() -> str | None:
    """Return what this host lacks for such a machine, and how to get it; None where nothing is known to."""
    try:
        uml.binary()
    except Refusal as refusal:
        return str(refusal)
    return None if where(MKFS) else f"{MKFS} not found; install it: apt-get install e2fsprogs"


class Machine:
    """One computer; a context manager that removes its namespace and disk. The server on it is its owner's to end.

    Args:
        record: of the run; the disk lies in its directory.
        memory_mb: taken from the host as it is used.
        narrow: whether its programs do without wide registers on every processor; see `router.launcher`.
    """

    address: Final = addressing.CONTROL_ADDRESS

    def __init__(self, record: RunRecord, memory_mb: int = 1_536, *, narrow: bool = False) -> None:
        self._record = record
        self._memory_mb = memory_mb
        self._narrow = narrow
        self.namespace = f"ivsim-{secrets.token_hex(3)}-m"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        lack = missing()
        if lack is not None:
            raise Refusal(lack)
        self._record.namespace(self.namespace)
        with self._stack:
            wiring.make_namespace(self._stack, self.namespace)
            near = (self.namespace, _DEVICE, addressing.CONTROL_PEER_MAC)
            wiring.veth(near, (self.namespace, _WIRE, _WIRE_MAC))
            wiring.address_control(self.namespace)
            with inside(self.namespace), IPRoute() as ip:
                index = ip.link_lookup(ifname=_DEVICE)[0]
                ip.neigh(
                    "add",
                    dst=self.address,
                    lladdr=addressing.CONTROL_MAC,
                    ifindex=index,
                    state="permanent",
                )
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def launch(self, name: str, directory: Path, argv: Sequence[str], record: RunRecord) -> MachineProcess:
        """Switch the machine on, with a server that keeps its files in `directory`; it ends when the server does.

        The first time the disk gets what lies in the directory; later it has what it was given before.
        """
        own = directory.with_name(f"{directory.name}-machine")
        disk, init = own / "disk", own / "init"
        # Looked at once: the second start of the same machine is what a recovery's time is taken from.
        check = ["true"] if disk.exists() else uml.register_check()
        if not disk.exists():
            record.scratch(own)
            own.mkdir()
            self._stack.callback(shutil.rmtree, own, ignore_errors=True)
            _make_disk(disk, directory)
        init.write_text(
            _INIT.format(
                address=self.address,
                prefix=addressing.PREFIX_LENGTH,
                peer=addressing.CONTROL_PEER_ADDRESS,
                mac=addressing.CONTROL_PEER_MAC,
                directory=shlex.quote(str(directory)),
                check=shlex.join(check),
                command=shlex.join(argv),
            )
        )
        init.chmod(0o755)
        return MachineProcess(name, self._kernel(disk, init), record, environment=_environment(disk))

    def _kernel(self, disk: Path, init: Path) -> list[str]:
        return [
            *uml.launcher(self.namespace, "equal", narrow=self._narrow),
            str(uml.binary()),
            f"mem={self._memory_mb}M",
            f"ubda={disk}",
            f"uml_dir={disk.parent}",
            f"umid={self.namespace}",
            *("rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"),
            *("con=null", "con0=null,fd:1"),
            f"vec0:transport=raw,ifname={_WIRE},depth=128,mac={addressing.CONTROL_MAC}",
        ]


class MachineProcess(OwnedProcess):
    """A machine that is switched on. It can only be switched off: asked to end, a guest's kernel may spin."""

    def check(self) -> None:
        """Raise ProcessDied when the machine is off; a Refusal when it found that no program can stand on it."""
        if not self.running():
            for line in self.log_path.read_text(errors="replace").splitlines():
                if line.startswith(REFUSED):
                    self._end()
                    raise Refusal(f"{self.name} on a machine of its own: {line.removeprefix(REFUSED)}")
        super().check()

    def _terminate(self) -> None:
        self._end()


def _environment(disk: Path) -> dict[str, str]:
    return {"TMPDIR": uml.memory_directory(disk.parent)}


def _make_disk(disk: Path, directory: Path) -> None:
    done = subprocess.run(
        [program(MKFS, MKFS), "-q", "-F", "-d", str(directory), str(disk), f"{DISK_MB}M"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refusal(f"mkfs.ext4 could not make {disk}: {done.stderr.strip()[-300:]}")
