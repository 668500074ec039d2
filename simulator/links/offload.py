"""Switches a device's offloads off, so that the link sees the packets a wire would carry."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from typing import Final

SIOCETHTOOL: Final = 0x8946
# ETHTOOL_STXCSUM, STSO, SGSO, SGRO: with any of them on, frames above the MTU or without a checksum
# reach the emulator, which delays, loses and counts them as one.
_COMMANDS: Final = {"tx": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}


def switch_off(device: str) -> None:
    """Switch the offloads of a device in the calling thread's namespace off; OSError when it cannot."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in _COMMANDS.values():
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(s, SIOCETHTOOL, request)
