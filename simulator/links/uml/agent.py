"""Init of the user-mode-Linux router: brings up the control device and passes netlink blocks to the kernel.

Runs inside the guest under the host's own interpreter with the standard library alone (python -S -E); it
knows nothing of vehicles, and nothing of ours may be imported here.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_FINIT_MODULE = {"x86_64": 313, "aarch64": 273}
SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8914
SIOCETHTOOL, ETHTOOL_SGRO = 0x8946, 0x2C
POWER_OFF = 0x4321FEDC
DONE, FAILED, PACKED = 0, 1, 2
PACKED_FROM_BYTES = 4096
ROOM = bytearray(1 << 20)
# glibc gives pages back from these sizes on, and a page that is new costs a guest more than what is done in it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 32 << 20
LONGEST_WAIT_NS = 2_000_000_000
FIRST_DUMP_NS = 200_000_000
CHANGED = "!qqqI"
# What may be on its way to the guest: the socket of its control device holds about 90 packets, and what it drops is sent
# again 200 ms later at the earliest.
WINDOW_BYTES = 32_768


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


def replies(netlink: socket.socket, block: bytes | memoryview, last: int) -> Iterator[memoryview]:
    """Send a block and yield its replies, part by part, up to the one that closes sequence number `last`.

    Each part is valid until the next one comes. A page that is touched for the first time takes a guest longer than what is
    done in it, so that all parts have the same ones.
    """
    netlink.send(block)
    while True:
        size = netlink.recv_into(ROOM)
        part = memoryview(ROOM)[:size]
        offset, closed = 0, False
        while offset < size:
            length, kind, _flags, sequence, _pid = struct.unpack_from("=IHHII", part, offset)
            closed |= sequence == last and kind in (2, 3)
            offset += (length + 3) & ~3
        yield part
        if closed:
            return


def packed(parts: Iterator[memoryview]) -> tuple[bytes, int]:
    """Return an answer and its status: as it is, or deflated.

    The counts of 1,000 vehicles are 870 kB that differ in little, and a guest that sends them forwards nothing meanwhile.
    """
    first = bytes(next(parts))
    if len(first) < PACKED_FROM_BYTES:
        return b"".join([first, *map(bytes, parts)]), DONE
    deflated = zlib.compressobj(1)
    found = [deflated.compress(first), *map(deflated.compress, parts)]
    return b"".join([*found, deflated.flush()]), PACKED


class Session:
    """Answers a connection's requests: a letter, a number, a length, as many bytes; an answer has status and length first."""

    def __init__(self, connection: socket.socket, netlink: socket.socket) -> None:
        self._connection, self._netlink = connection, netlink
        self._stored = memoryview(b"")  # netlink blocks that wait for their time, a table of them first
        self._blocks = 0
        self._dump_ns = FIRST_DUMP_NS  # what the last dump before a change took

    def answer(self) -> None:
        """Answer the next request; EOFError when nobody asks any more."""
        kind, number, count = struct.unpack("!cII", read(self._connection, 9))
        body = read(self._connection, count)
        try:
            answer, status = self.answer_to(kind, number, body)
        except (OSError, zlib.error) as error:
            answer, status = str(error).encode(), FAILED
        self._connection.sendall(struct.pack("!II", status, len(answer)) + answer)

    def answer_to(self, kind: bytes, number: int, body: bytes) -> tuple[bytes, int]:
        """Do what one request asks.

        N: a netlink block, `number` its last sequence number. S: `number` blocks, deflated, to be kept in place of those that
        are. G: those, at a time of this kernel's clock, behind the dump that is asked for with it. T: that time. R: read, W: write
        a file.
        """
        if kind == b"N":
            return packed(replies(self._netlink, body, number))
        if kind == b"S":
            self._stored, self._blocks = memoryview(zlib.decompress(body)), number
            return b"", DONE
        if kind == b"G":
            return self.change(int.from_bytes(body[:8], "big", signed=True), body[8:], number), DONE
        if kind == b"T":
            return struct.pack("!q", time.monotonic_ns()), DONE
        if kind == b"R":
            return Path(body.decode()).read_bytes(), DONE
        if kind == b"W":
            path, value = body.split(b"\0", 1)
            return str(Path(path.decode()).write_bytes(value)).encode(), DONE
        raise OSError(22, f"unknown request {kind!r}")

    def change(self, at_ns: int, dump: bytes, dump_last: int) -> bytes:
        """Hand the blocks that are kept to the kernel when their time has come, or at once when it has passed.

        Return `CHANGED`: when that began, when it ended, and when the dump was there, whose status follows; then the dump, and
        of each block the replies, all with their length before them.
        """
        stored, blocks = self._stored, self._blocks
        self._stored, self._blocks = memoryview(b""), 0
        counted, status = b"", DONE
        if dump:
            asked_ns = wait_until(at_ns - self._dump_ns * 3 // 2)
            counted, status = packed(replies(self._netlink, dump, dump_last))
            self._dump_ns = time.monotonic_ns() - asked_ns
        dumped_ns = time.monotonic_ns()
        began_ns = wait_until(at_ns)
        answers, offset = [struct.pack("!I", len(counted)), counted], 8 * blocks
        for length, last in struct.iter_unpack("!II", stored[:offset]):
            found = b"".join(map(bytes, replies(self._netlink, stored[offset : offset + length], last)))
            answers += [struct.pack("!I", len(found)), found]
            offset += length
        return struct.pack(CHANGED, began_ns, time.monotonic_ns(), dumped_ns, status) + b"".join(answers)


def serve(server: socket.socket, netlink: socket.socket) -> None:
    """Answer one request after the other, whoever asks, until nobody is connected any more."""
    sessions: dict[int, tuple[socket.socket, Session]] = {}
    waiting = select.poll()
    waiting.register(server, select.POLLIN)
    while True:
        for ready, _events in waiting.poll():
            if ready == server.fileno():
                connection, _peer = server.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sessions[connection.fileno()] = connection, Session(connection, netlink)
                waiting.register(connection, select.POLLIN)
                continue
            connection, session = sessions[ready]
            try:
                session.answer()
            except (EOFError, ConnectionError):
                waiting.unregister(ready)
                del sessions[ready]
                connection.close()
                if not sessions:
                    return


def wait_until(at_ns: int) -> int:
    """Wait for an instant of this kernel's clock, no longer than is sensible; return the time it is then."""
    time.sleep(min(max(0, at_ns - time.monotonic_ns()), LONGEST_WAIT_NS) / 1e9)
    return time.monotonic_ns()


def main() -> None:
    """Take: address of the control device, then the modules to load."""
    address, *modules = sys.argv[1:]
    for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        LIBC.mallopt(parameter, KEPT_BYTES)
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
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
        server.bind((address, 7000))
        server.listen(2)
        print("READY", os.uname().release, flush=True)
        serve(server, netlink)


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:  # noqa: BLE001 - the last words of a guest that cannot start
        print("FAILED", type(error).__name__, error, flush=True)
    finally:
        os.sync()
        LIBC.reboot(ctypes.c_uint(POWER_OFF))
