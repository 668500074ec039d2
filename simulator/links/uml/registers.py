"""Looks, inside a guest, whether its kernel keeps the registers that its programs compute in, and says what it loses.

Run as a script by its path before anything else: it prints one line, and ends with 1 where no program may start. It
imports nothing of ours, and there is no compiler in a guest: it brings its own few machine instructions.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self

KEPT, LOST, REFUSED = "registers: all kept", "registers lost: ", "registers refused: "
SECONDS = 0.1
# Rounds of one call, each with a system call, the first use of a page, and a while of computing for the timer to
# interrupt: the three ways into a kernel, which stores and loads the registers of whoever goes on.
ROUNDS, SPINS = 64, 20_000
PAGE_BYTES = 4_096
XCR0_AVX, XCR0_AVX512 = 0x6, 0xE6
CPUID_OSXSAVE, CPUID_AVX512F = 1 << 27, 1 << 16
# Registers of each kind, and bytes of one. The wider ones hold the narrower ones.
KINDS = {"SSE": (16, 16), "AVX": (16, 32), "AVX-512": (32, 64)}
YIELD_AND_TOUCH = bytes.fromhex(
    "b818000000"  # mov eax, 24 (sched_yield)
    "0f05"  # syscall
    "800201"  # add byte [rdx], 1
    "4881c200100000"  # add rdx, 4096
) + (b"\xb8" + struct.pack("<I", SPINS) + bytes.fromhex("ffc875fc"))  # mov eax, SPINS; dec eax; jnz back


def moves(kind: str, opcode: int) -> bytes:
    """Return what moves all registers of the kind from memory at rdi (opcode 0x10), or to it (0x11)."""
    count, width_bytes = KINDS[kind]
    code = b""
    for number in range(count):
        high, highest = number >> 3 & 1, number >> 4
        if kind == "SSE":  # movups, with REX.R for xmm8 and above
            code += b"\x44" * high + b"\x0f"
        elif kind == "AVX":  # vmovups by a VEX prefix of two bytes, whose R is inverted
            code += bytes((0xC5, 0xFC ^ high << 7))
        else:  # vmovups by an EVEX prefix, whose R and R' are inverted
            code += bytes((0x62, 0xF1 ^ high << 7 ^ highest << 4, 0x7C, 0x48))
        code += bytes((opcode, 0x87 | (number & 7) << 3)) + struct.pack("<i", number * width_bytes)
    return code


def routine(kind: str, between: bytes = YIELD_AND_TOUCH) -> bytes:
    """Return a function of (pattern, rounds, fresh pages): loads the pattern, goes round, stores what is there.

    Args:
        kind: of `KINDS`.
        between: what is done in each round.
    """
    again = b"\x48\xff\xce" + b"\x0f\x85"  # dec rsi; jnz, relative to the end of its four bytes
    back = struct.pack("<i", -len(between) - len(again) - 4)
    end = b"" if kind == "SSE" else b"\xc5\xf8\x77"  # vzeroupper
    return moves(kind, 0x10) + between + again + back + moves(kind, 0x11) + end + b"\xc3"


class Code:
    """Machine code in memory that may be executed; a context manager that gives it back."""

    def __init__(self, code: bytes) -> None:
        self._memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(code)
        self._first: ctypes.c_char | None = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(self._first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._first = None  # it holds the memory
        self._memory.close()


def widest() -> str | None:
    """Return the widest kind that a program finds by asking the processor, as Java does; None where it is another."""
    if platform.machine() != "x86_64":
        return None
    # push rbx; mov eax, edi; xor ecx, ecx; cpuid; mov [rsi], ebx; mov [rsi+4], ecx; pop rbx; ret
    with Code(bytes.fromhex("5389f831c90fa2891e894e045bc3")) as code:
        ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)(code.address)
        found = (ctypes.c_uint32 * 2)()
        ask(1, ctypes.addressof(found))
        if not found[1] & CPUID_OSXSAVE:
            return "SSE"
        ask(7, ctypes.addressof(found))
    with Code(bytes.fromhex("31c90f01d0c3")) as code:  # xor ecx, ecx; xgetbv; ret
        enabled = ctypes.CFUNCTYPE(ctypes.c_uint32)(code.address)()
    if found[0] & CPUID_AVX512F and enabled & XCR0_AVX512 == XCR0_AVX512:
        return "AVX-512"
    return "AVX" if enabled & XCR0_AVX == XCR0_AVX else "SSE"


def changed(kind: str, before: bytes, after: bytes) -> set[str]:
    """Return whose parts of the registers are not what they were, from one pattern to the other."""
    width_bytes = KINDS[kind][1]
    found = set()
    for at, pair in enumerate(zip(before, after, strict=True)):
        if pair[0] != pair[1]:
            register, byte = divmod(at, width_bytes)
            found.add("AVX-512" if register >= 16 or byte >= 32 else "AVX" if byte >= 16 else "SSE")
    return found


def kept_by_one(kind: str, function: int, seed: int, lost: set[str], seconds: float = SECONDS) -> None:
    """Keep a pattern of this thread's own in all registers for a while; add to `lost` whose parts were lost."""
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)(function)
    count, width_bytes = KINDS[kind]
    # 251 is prime: no two registers and no two halves are alike, and none is 0.
    pattern = bytes(1 + (seed + at * 7) % 251 for at in range(count * width_bytes))
    until_s = time.monotonic() + seconds
    with mmap.mmap(-1, ROUNDS * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        first = ctypes.c_char.from_buffer(pages)
        while time.monotonic() < until_s:
            held = ctypes.create_string_buffer(pattern, len(pattern))
            call(ctypes.addressof(held), ROUNDS, ctypes.addressof(first))
            lost |= changed(kind, pattern, held.raw)
            pages.madvise(mmap.MADV_DONTNEED)
        del first  # it holds the pages


def kept_by_two(kind: str, function: int, seed: int) -> set[str]:
    """Do so in two threads of this process: a kernel may keep registers of processes apart, and not of threads."""
    lost: set[str] = set()
    threads = [
        threading.Thread(target=kept_by_one, args=(kind, function, seed + own, lost)) for own in (0, 100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lost


def lost_here() -> list[str]:
    """Return the kinds of registers that two processes with two threads each lose, the narrowest first."""
    kind = widest()
    if kind is None:
        return []
    with Code(routine(kind)) as code:
        child = os.fork()
        if not child:
            bits = 0xFF
            try:
                found = kept_by_two(kind, code.address, 50)
                bits = sum(1 << at for at, name in enumerate(KINDS) if name in found)
            finally:
                os._exit(bits)
        lost = kept_by_two(kind, code.address, 0)
        bits = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not 0 <= bits < 1 << len(KINDS):
        bits = 1  # it did not come to its end: nothing can be relied on
    return [name for at, name in enumerate(KINDS) if name in lost or bits >> at & 1]


def verdict(lost: Sequence[str], restricted: bool) -> str:
    """Return the line that says what is lost, and whether programs may start.

    Args:
        lost: kinds of registers.
        restricted: that programs are told to use none beyond SSE.
    """
    if not lost:
        return KEPT
    names = " and ".join(lost)
    if "SSE" in lost:
        return f"{REFUSED}the kernel of such a machine loses {names} registers here, which every program uses"
    if not restricted:
        return (
            f"{REFUSED}the kernel of such a machine loses {names} registers here, and nothing tells its programs not"
            " to use them"
        )
    return f"{LOST}{names}; its programs are told not to use them"


def restricted_by(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether the environment has every one of the words NAME=VALUE that keep programs off wide registers."""
    return all(environment.get(name) == value for name, _, value in (word.partition("=") for word in words))


def main() -> None:
    """Take the words that the environment has where programs are told."""
    said = verdict(lost_here(), restricted_by(sys.argv[1:], os.environ))
    print(said, flush=True)
    sys.exit(1 if said.startswith(REFUSED) else 0)


if __name__ == "__main__":
    main()
