"""The router in this host's own kernel: a third namespace that forwards, driven by the same messages."""

from __future__ import annotations

import contextlib
import platform
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from schemas.errors import Refusal
from simulator.links import addressing, wiring
from simulator.links import netlink as nl
from simulator.links.base import LinkError, wait_until
from simulator.links.namespaces import inside
from simulator.links.routers import DUMP_LEAD, FIRST_DUMP_S, Answer, Apply, Block

SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
BUFFER_BYTES: Final = 16 << 20
DEVICES: Final = ("rv0", "rc0")


class NetemRouter:
    """A namespace between the two, joined to them by veth pairs."""

    def __init__(self) -> None:
        self._namespace = ""
        self._netlink: socket.socket | None = None
        self._dump_s = FIRST_DUMP_S

    def open(self, stack: contextlib.ExitStack, run: str, vehicles: int) -> tuple[str, str]:
        """Make the namespace and its devices; see `routers.Router.open`."""
        del vehicles  # a kernel of the host needs no memory set aside
        self._namespace = f"ivsim-{run}-r"
        wiring.make_namespace(stack, self._namespace)
        for end, device, side in zip(
            ("v", "c"), DEVICES, (addressing.VEHICLES_SIDE, addressing.CLOUD_SIDE), strict=True
        ):
            outer = (f"ivsim-{run}-{end}", side.device, side.mac)
            wiring.veth(outer, (self._namespace, device, side.router_mac))
        self.attach(stack)
        return DEVICES

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_netlink": None}

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Open a way to the kernel; see `routers.Router.attach`."""
        with inside(self._namespace):
            self._netlink = stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
        self._netlink.bind((0, 0))
        for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
            with contextlib.suppress(PermissionError):  # in a user namespace the limits of the host hold
                self._netlink.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        for option in (CAP_ACK, EXT_ACK):
            self._netlink.setsockopt(SOL_NETLINK, option, 1)

    def index(self, device: str) -> int:
        with inside(self._namespace):
            return socket.if_nametoindex(device)

    def prepare(self, blocks: Sequence[Block]) -> Apply:
        """Return what hands each block to the kernel; see `routers.Router.prepare`."""

        def apply(at_s: float, dump: Block | None) -> Answer:
            found, counted_s = b"", 0.0
            if dump is not None:
                asked_s = wait_until(at_s - self._dump_s * DUMP_LEAD)
                found, counted_s = self.dump(*dump), time.monotonic()
                self._dump_s = counted_s - asked_s
            began_s = wait_until(at_s)
            replies = [self.dump(*block) for block in blocks]
            return Answer(began_s, time.monotonic(), replies, found, counted_s)

        return apply

    def dump(self, block: bytes, last: int) -> bytes:
        assert self._netlink is not None
        parts = []
        try:
            self._netlink.send(block)
            while True:
                part = self._netlink.recv(1 << 20)
                parts.append(part)
                if nl.closes(part, last):
                    return b"".join(parts)
        except OSError as error:
            raise LinkError(f"link netem: netlink: {error}") from error

    def read(self, path: str) -> bytes:
        with inside(self._namespace):
            return Path(path).read_bytes()

    def write(self, path: str, value: str) -> None:
        """Write a setting of the router's namespace (/proc/sys/net shows the calling thread's)."""
        try:
            with inside(self._namespace):
                Path(path).write_text(value)
        except OSError as error:
            raise LinkError(f"link netem: {path}: {error.strerror}") from error

    def properties(self) -> dict[str, Any]:
        return {"kernel": platform.release(), "transport": "veth"}


def probe_run() -> str:
    """Return a run's name for a probe that collides with no other."""
    return f"probe{secrets.token_hex(3)}"


def refusal(error: LinkError) -> Refusal:
    """Return what to tell somebody whose kernel cannot do it."""
    return Refusal(
        f"link netem: this kernel ({platform.release()}) cannot: {error}; "
        "load sch_netem, sch_htb, sch_plug, cls_flow, cls_u32, act_mirred, ifb (Debian and Ubuntu have them; "
        "Fedora: dnf install kernel-modules-extra)"
    )
