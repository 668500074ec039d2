"""Switches a device's offloads off, so that the link sees the packets a wire would carry, and reads how they are."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from typing import Final

from simulator.links.base import Link
from simulator.links.namespaces import inside

SIOCETHTOOL: Final = 0x8946
# ETHTOOL_STXCSUM, STSO, SGSO, SGRO: with any of them on, frames above the MTU or without a checksum
# reach the emulator, which delays, loses and counts them as one.
_COMMANDS: Final = {"tx": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
# ETHTOOL_GRXCSUM, GTXCSUM, GTSO, GGSO, GGRO.
_QUESTIONS: Final = {"rx": 0x14, "tx": 0x16, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}


def switch_off(device: str) -> None:
    """Switch the offloads of a device in the calling thread's namespace off; OSError when it cannot."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in _COMMANDS.values():
            _ethtool(s, device, command)


def states(device: str) -> dict[str, bool | None]:
    """Return which offloads of a device in the calling thread's namespace are on; None where it does not say."""
    found: dict[str, bool | None] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for name, command in _QUESTIONS.items():
            try:
                found[name] = bool(_ethtool(s, device, command))
            except OSError:
                found[name] = None
    return found


def of_link(link: Link) -> dict[str, dict[str, bool | None]]:
    """Return the offloads of every device at both ends of a link, by side and device."""
    found: dict[str, dict[str, bool | None]] = {}
    for side, namespace in (("vehicles", link.vehicles_namespace), ("cloud", link.cloud_namespace)):
        with inside(namespace):
            devices = sorted(name for _, name in socket.if_nameindex() if name != "lo")
            found |= {f"{side} {device}": states(device) for device in devices}
    return found


def _ethtool(s: socket.socket, device: str, command: int) -> int:
    """Ask or tell one thing (linux/ethtool.h, struct ethtool_value); return the value after it."""
    value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
    request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
    fcntl.ioctl(s, SIOCETHTOOL, request)
    return int(struct.unpack("II", value.raw)[1])
