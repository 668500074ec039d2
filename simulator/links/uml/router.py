"""The user-mode-Linux router: starts and stops the guest and carries netlink blocks to its kernel."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from schemas import namespace
from schemas.errors import Refusal
from simulator.links import addressing, wiring
from simulator.links.base import LinkError
from simulator.links.namespaces import inside
from simulator.links.routers import Answer, Apply, Block
from simulator.links.uml import agent, launch

MODULES_ROOT: Final = Path("/usr/lib/uml/modules")
MODULES: Final = (
    "ifb",
    "sch_ingress",
    "sch_htb",
    "sch_netem",
    "sch_plug",
    "cls_flow",
    "cls_u32",
    "act_mirred",
)
BOOT_TIMEOUT_S: Final = 30.0
CLOCK_READINGS: Final = 5
# The guest's driver takes as many packets at once as its queue is deep, and Linux allows a poll 64 (NAPI_POLL_WEIGHT).
DEPTH_PACKETS: Final = 32
_AGENT: Final = Path(__file__).with_name("agent.py")
_LAUNCH: Final = Path(__file__).with_name("launch.py")
_REGISTERS: Final = Path(__file__).with_name("registers.py")


def binary() -> Path:
    """Return the UML kernel's path; Refusal that says what to install when there is none."""
    found = shutil.which("linux.uml")
    if found is None:
        raise Refusal("link uml: linux.uml not found; install it: apt-get install user-mode-linux")
    return Path(found)


def modules(names: tuple[str, ...] = MODULES) -> list[Path]:
    """Return the modules' files in loading order; Refusal that names one that is missing."""
    release = subprocess.run(
        [binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    found = {path.stem: path for path in (MODULES_ROOT / release).rglob("*.ko")}
    for name in names:
        if name not in found:
            raise Refusal(f"link uml: {MODULES_ROOT / release} has no {name}.ko; reinstall user-mode-linux")
    return [found[name] for name in names]


def launcher(in_namespace: str, priority: str, *, narrow: bool = False) -> list[str]:
    """Return what starts a guest's kernel, whose words follow; the guest dies with the process that starts it.

    Args:
        in_namespace: where its devices are.
        priority: `first` for one that others wait for, `equal` for one of many.
        narrow: whether it does without registers wider than SSE's on every processor, as it must on those that have
            more than it can hold; so that each can show what becomes of programs there.
    """
    own = _script(_LAUNCH, str(os.getpid()))
    return [*own, str(namespace.ROOT / in_namespace), priority, "narrow" if narrow else "found"]


def register_check() -> list[str]:
    """Return what a guest runs before its programs, if it has any but ours: see `registers.py`."""
    return _script(_REGISTERS, *launch.RESTRICTIONS)


def _script(path: Path, *words: str) -> list[str]:
    """Return a script's command by the host's own interpreter, with the standard library alone."""
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return [str(interpreter), "-S", "-E", "-B", str(path), *words]


def memory_directory(fallback: Path) -> str:
    """Return where the guest's memory file goes (unlinked at once): a tmpfs where there is one."""
    shared = Path("/dev/shm")  # noqa: S108
    return str(shared if os.access(shared, os.W_OK) else fallback)


class Guest:
    """A running UML kernel whose three devices are raw sockets on veth ends of the router namespace."""

    def __init__(self, namespace: str, devices: tuple[str, str, str], memory_mb: int) -> None:
        self._namespace = namespace
        self._devices = devices
        self._memory_mb = memory_mb
        self.release = ""
        self.boot_s = 0.0
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        """Boot the guest and connect to its agent; LinkError with its last words when it does not come."""
        began = time.monotonic()
        directory = Path(tempfile.mkdtemp(prefix="ivsim-uml-"))
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
        self._log = self._stack.enter_context((directory / "uml.log").open("w+b"))
        read_end, write_end = os.pipe()
        self._stack.callback(os.close, read_end)
        try:
            self._spawn(directory, write_end)
        finally:
            os.close(write_end)
        self._stack.callback(self._kill)
        self.release = self._wait_ready(read_end, began + BOOT_TIMEOUT_S)
        self._connect()
        # Nothing reads the files any more; gone now, they are not left behind even by a SIGKILL.
        shutil.rmtree(directory, ignore_errors=True)
        self.boot_s = time.monotonic() - began

    def _spawn(self, directory: Path, console: int) -> None:
        init = directory / "init"
        words = _script(_AGENT, addressing.CONTROL_ADDRESS, *map(str, modules()))
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        init.write_text(f"#!/bin/sh\nexec {quoted}\n")
        init.chmod(0o755)
        macs = (addressing.ROUTER_VEHICLES_MAC, addressing.ROUTER_CLOUD_MAC, addressing.CONTROL_MAC)
        vectors = [
            f"vec{i}:transport=raw,ifname={device},depth={DEPTH_PACKETS},mac={mac}"
            for i, (device, mac) in enumerate(zip(self._devices, macs, strict=True))
        ]
        argv = [str(binary()), f"mem={self._memory_mb}M", f"uml_dir={directory}", f"umid={self._namespace}"]
        argv += ["rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"]
        argv += ["con=null", f"con0=null,fd:{console}", *vectors]
        # The guest dies with its owner even after SIGKILL; its own session makes one group of its helpers.
        argv = [*launcher(self._namespace, "first"), *argv]
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(console,),
            start_new_session=True,
            env=os.environ | {"TMPDIR": memory_directory(directory)},
        )

    def _wait_ready(self, read_end: int, deadline: float) -> str:
        text = b""
        while b"\n" not in text.partition(b"READY ")[2]:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([read_end], [], [], max(0.0, left))
            part = os.read(read_end, 4096) if ready else b""
            if not part or b"FAILED" in text + part:
                self._log.seek(0)
                said = (text + part + self._log.read()).decode(errors="replace").strip()
                why = "ended" if ready else f"not ready after {BOOT_TIMEOUT_S:g} s"
                raise LinkError(f"link uml: the guest {why}: {' / '.join(said.splitlines()[-4:])}")
            text += part
        return text.partition(b"READY ")[2].split(b"\n")[0].strip().decode()

    def _connect(self) -> None:
        with inside(self._namespace):
            self._socket = socket.create_connection((addressing.CONTROL_ADDRESS, 7000), timeout=10)
        self._stack.callback(self._socket.close)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(30)
        # The guest's monotonic clock counts the host's nanoseconds from another beginning (arch/um, timer_read).
        self._behind_ns = min(self._clock() for _ in range(CLOCK_READINGS))[1]

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to ask the guest, too: see `attach`."""
        return {name: vars(self)[name] for name in ("_namespace", "release", "boot_s")}

    def attach(self) -> None:
        """Connect to the guest of another process, in a copy of its `Guest`."""
        self._stack = contextlib.ExitStack()
        self._connect()

    def _clock(self) -> tuple[int, int]:
        """Return how long a reading of the guest's clock took, and how far that is behind the host's; both ns."""
        asked_ns = time.monotonic_ns()
        (theirs_ns,) = struct.unpack("!q", self.request(b"T", b""))
        took_ns = time.monotonic_ns() - asked_ns
        return took_ns, asked_ns + took_ns // 2 - theirs_ns

    def request(self, kind: bytes, body: bytes, number: int = 0) -> bytes:
        """Send one request to the agent and return its answer; LinkError with its reason if it fails."""
        try:
            self._socket.sendall(struct.pack("!cII", kind, number, len(body)) + body)
            status, count = struct.unpack("!II", self._receive(8))
            answer = self._receive(count)
        except OSError as error:
            raise LinkError(f"link uml: the guest does not answer: {error}") from error
        if status == agent.FAILED:
            raise LinkError(f"link uml: {answer.decode(errors='replace')}")
        return zlib.decompress(answer) if status == agent.PACKED else answer

    def prepare(self, blocks: Sequence[Block]) -> Apply:
        """Hand netlink blocks to the guest, and return what has them take effect; see `routers.Router.prepare`.

        They are on their way before their time has come, and the guest keeps it by its own clock: neither what their bytes
        cost nor who holds this process's lock makes them late.
        """
        table = b"".join(struct.pack("!II", len(block.packed), block.last) for block in blocks)
        body = zlib.compress(b"".join([table, *(block.packed for block in blocks)]), 1)
        self.request(b"S", body, len(blocks))
        return self._apply

    def _apply(self, at_s: float, dump: Block | None) -> Answer:
        wanted, last = dump or (b"", 0)
        body = struct.pack("!q", round(at_s * 1e9) - self._behind_ns) + wanted
        answer = self.request(b"G", body, last)
        *times_ns, packed = struct.unpack_from(agent.CHANGED, answer)
        began_s, ended_s, dumped_s = ((at_ns + self._behind_ns) / 1e9 for at_ns in times_ns)
        found, *replies = _parts(answer[struct.calcsize(agent.CHANGED) :])
        return Answer(
            began_s, ended_s, replies, zlib.decompress(found) if packed == agent.PACKED else found, dumped_s
        )

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise LinkError("link uml: the guest closed its connection")
            data += part
        return bytes(data)

    def read(self, path: str) -> bytes:
        return self.request(b"R", path.encode())

    def write(self, path: str, value: str) -> None:
        self.request(b"W", path.encode() + b"\0" + value.encode())

    def scheduling(self) -> str:
        """Return how the host schedules the guest: real-time, or by its nice value."""
        pid = self._process.pid
        if os.sched_getscheduler(pid) == os.SCHED_RR:
            return "real-time"
        return f"nice {os.getpriority(os.PRIO_PROCESS, pid)}"

    def _kill(self) -> None:
        """End the guest and its helpers at once: there is nothing in it to save, and TERM may make it spin."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._stack.close()


def _parts(answer: bytes) -> list[bytes]:
    """Return the parts of an answer, each with its length before it."""
    found, offset = [], 0
    while offset < len(answer):
        (length,) = struct.unpack_from("!I", answer, offset)
        found.append(answer[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return found


class UmlRouter:
    """A router in a user-mode-Linux guest, joined to both namespaces by veth pairs."""

    def __init__(self) -> None:
        self._guest: Guest | None = None

    def open(self, stack: contextlib.ExitStack, run: str, vehicles: int) -> tuple[str, str]:
        """Boot the guest; see `routers.Router.open`."""
        namespace = f"ivsim-{run}-r"
        wiring.make_namespace(stack, namespace)
        for end, device, side in (
            ("v", "rv0", addressing.VEHICLES_SIDE),
            ("c", "rc0", addressing.CLOUD_SIDE),
        ):
            outer = (f"ivsim-{run}-{end}", side.device, side.mac)
            wiring.veth(outer, (namespace, device, "02:00:c6:15:00:0" + ("1" if end == "v" else "2")))
        wiring.veth((namespace, "ctl0", addressing.CONTROL_PEER_MAC), (namespace, "rx0", "02:00:c6:15:00:03"))
        wiring.address_control(namespace)
        # Taken from the host only as it is used: queues and delay lines of the fleet.
        guest = Guest(namespace, ("rv0", "rc0", "rx0"), 256 + vehicles // 8)
        stack.callback(guest.close)
        guest.start()
        self._guest = guest
        return ("vec0", "vec1")

    @property
    def guest(self) -> Guest:
        if self._guest is None:
            raise LinkError("link uml: not open")
        return self._guest

    def prepare(self, blocks: Sequence[Block]) -> Apply:
        return self.guest.prepare(blocks)

    def dump(self, block: bytes, last: int) -> bytes:
        return self.guest.request(b"N", block, last)

    def attach(self, stack: contextlib.ExitStack) -> None:
        self.guest.attach()
        stack.callback(self.guest.close)

    def index(self, device: str) -> int:
        return int(self.guest.read(f"/sys/class/net/{device}/ifindex"))

    def read(self, path: str) -> bytes:
        return self.guest.read(path)

    def write(self, path: str, value: str) -> None:
        self.guest.write(path, value)

    def properties(self) -> dict[str, Any]:
        return {
            "kernel": self.guest.release,
            "boot_s": round(self.guest.boot_s, 3),
            "transport": "raw",
            "scheduling": self.guest.scheduling(),
        }


def probe() -> None:
    """Raise a Refusal when the UML kernel or one of its modules is missing."""
    modules()
