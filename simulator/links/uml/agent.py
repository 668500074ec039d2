"""Init of the user-mode-Linux router: brings up the control device and passes netlink blocks to the kernel.

Runs inside the guest under the host's own interpreter with the standard library alone (python -S -E); it
knows nothing of vehicles, and nothing of ours may be imported here.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_FINIT_MODULE = {"x86_64": 313, "aarch64": 273}
SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8914
SIOCETHTOOL, ETHTOOL_SGRO = 0x8946, 0x2C
POWER_OFF = 0x4321FEDC


def mount(kind: str, where: str) -> None:
    if LIBC.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def load(module: str) -> None:
    number = SYS_FINIT_MODULE[os.uname().machine]
    handle = os.open(module, os.O_RDONLY)
    if LIBC.syscall(number, handle, b"", 0) != 0 and ctypes.get_errno() != 17:
        raise OSError(ctypes.get_errno(), f"insmod {module}")
    os.close(handle)


def bring_up(device: str, address: str) -> None:
    """Give the device an address (/30) and set it up, by the old ioctls."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        name = device.encode()
        inet = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
        mask = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton("255.255.255.252"))
        fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16s16s8x", name, inet))
        fcntl.ioctl(s, SIOCSIFNETMASK, struct.pack("16s16s8x", name, mask))
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", name, 0x1043))


def stop_merging(device: str) -> None:
    """Switch generic receive offload off: merged segments would be lost, delayed and counted as one packet."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_SGRO, 0))
    request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCETHTOOL, request)


def read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def exchange(netlink: socket.socket, block: bytes, last: int) -> bytes:
    """Send a block and return all its replies, up to the one that closes sequence number `last`."""
    netlink.send(block)
    out = []
    while True:
        part = netlink.recv(1 << 20)
        out.append(part)
        offset = 0
        while offset < len(part):
            size, kind, _flags, sequence, _pid = struct.unpack_from("=IHHII", part, offset)
            if sequence == last and kind in (2, 3):
                return b"".join(out)
            offset += (size + 3) & ~3


def serve(connection: socket.socket, netlink: socket.socket) -> None:
    """Answer requests: one letter, a number, a length and as many bytes; the answer has a length first."""
    while True:
        kind, number, count = struct.unpack("!cII", read(connection, 9))
        body = read(connection, count)
        try:
            answer, status = answer_to(netlink, kind, number, body), 0
        except OSError as error:
            answer, status = str(error).encode(), 1
        connection.sendall(struct.pack("!II", status, len(answer)) + answer)


def answer_to(netlink: socket.socket, kind: bytes, number: int, body: bytes) -> bytes:
    """Do what one request asks: N a netlink block and its last sequence number, R read, W write a file."""
    if kind == b"N":
        return exchange(netlink, body, number)
    if kind == b"R":
        return Path(body.decode()).read_bytes()
    if kind == b"W":
        path, value = body.split(b"\0", 1)
        return str(Path(path.decode()).write_bytes(value)).encode()
    raise OSError(22, f"unknown request {kind!r}")


def main() -> None:
    """Take: address of the control device, then the modules to load."""
    address, *modules = sys.argv[1:]
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    for module in modules:
        load(module)
    bring_up("vec2", address)
    for device in ("vec0", "vec1"):
        stop_merging(device)
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    netlink.bind((0, 0))
    for option in (32, 33):  # SO_SNDBUFFORCE, SO_RCVBUFFORCE
        netlink.setsockopt(socket.SOL_SOCKET, option, 16 << 20)
    for option in (CAP_ACK, EXT_ACK):
        netlink.setsockopt(SOL_NETLINK, option, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, 7000))
        server.listen(1)
        print("READY", os.uname().release, flush=True)
        connection, _peer = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    serve(connection, netlink)


if __name__ == "__main__":
    try:
        main()
    except EOFError:
        pass
    except BaseException as error:  # noqa: BLE001 - the last words of a guest that cannot start
        print("FAILED", type(error).__name__, error, flush=True)
    finally:
        os.sync()
        LIBC.reboot(ctypes.c_uint(POWER_OFF))
