"""Becomes the user-mode-Linux kernel: enters its namespace, ties its life to its owner, then execs it.

Run as a script by its path; it imports nothing of ours, so that it starts in milliseconds.
"""

import ctypes
import itertools
import os
import platform
import select
import signal
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
CLONE_NEWNET = 0x40000000
AT_MINSIGSTKSZ = 51
# UML 6.1 keeps 2,696 bytes of a guest's extended registers (AVX-512, no more). Linux takes the whole set or
# none from a tracer (EFAULT), and on a processor with AMX the whole set is 11,008 bytes: the guest dies with
# "ptrace set fp regs failed, errno = 14". A signal frame holds the set and about 1 kB, which tells the two.
UML_REGISTERS_BYTES = 2696 + 1400
ALLOW, ERRNO_ENODEV, AUDIT_X86_64 = 0x7FFF0000, 0x00050013, 0xC000003E
SYS_PTRACE, PTRACE_GETREGSET, NT_X86_XSTATE = 101, 0x4204, 0x202
# With them hidden, no program in the guest may use them: a page's first use or another thread's turn would lose what is
# beyond the 16 bytes of SSE. Programs choose their instructions by what the processor says, which nobody can hide from
# them, but each can be told. The guest kernel hands words that it does not know to init as its environment.
WITHOUT_AVX = "GLIBC_TUNABLES=glibc.cpu.hwcaps=" + ",".join(
    f"-{feature}"
    for feature in (
        "AVX", "AVX2", "FMA", "FMA4", "AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD",
        "AVX_Fast_Unaligned_Load", "XSAVE", "XSAVEC",
    )
)  # fmt: skip
# Read by `java` of JDK 9 and later, which says so in one line of its standard error.
JAVA_WITHOUT_AVX = "JDK_JAVA_OPTIONS=-XX:UseAVX=0"
# The bits of OPENSSL_ia32cap(3) by its vectors of 64; versions before 3.5 read two and ignore the others.
OPENSSL_BITS = (
    (43, 44, 60),  # XOP, FMA, AVX
    # AVX2; AVX512F, DQ, IFMA, PF, ER, CD, BW, VL, VBMI, VBMI2; VAES, VPCLMULQDQ; AVX512 VNNI, BITALG, VPOPCNTDQ
    (5, 16, 17, 21, 26, 27, 28, 30, 31, 33, 38, 41, 42, 43, 44, 46),
    (
        2,
        3,
        8,
        32,
        33,
        34,
        36,
        37,
        55,
    ),  # three more of AVX512; SHA512, SM3, SM4, AVX-VNNI, AVX512_BF16, AVX-IFMA
    (19, 21),  # AVX10, APX
)
OPENSSL_WITHOUT_AVX = "OPENSSL_ia32cap=" + ":".join(
    f"~{sum(1 << bit for bit in vector):#x}" for vector in OPENSSL_BITS
)
RESTRICTIONS = (WITHOUT_AVX, JAVA_WITHOUT_AVX, OPENSSL_WITHOUT_AVX)
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def has_wide_registers() -> bool:
    """Return whether this processor's register set is larger than UML can hold."""
    LIBC.getauxval.restype = ctypes.c_ulong
    return platform.machine() == "x86_64" and LIBC.getauxval(AT_MINSIGSTKSZ) > UML_REGISTERS_BYTES


def hide_extended_registers() -> None:
    """Let ptrace(GETREGSET, NT_X86_XSTATE) fail as on a processor without it (ENODEV).

    UML asks once at its start and then uses the 512 bytes of FXSAVE, which every kernel takes.
    """
    load, equal, give = 0x20, 0x15, 0x06
    rules = [
        (load, 0, 0, 4), (equal, 0, 6, AUDIT_X86_64),
        (load, 0, 0, 0), (equal, 0, 4, SYS_PTRACE),
        (load, 0, 0, 16), (equal, 0, 2, PTRACE_GETREGSET),
        (load, 0, 0, 32), (equal, 1, 0, NT_X86_XSTATE),
        (give, 0, 0, ALLOW), (give, 0, 0, ERRNO_ENODEV),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("=H6xQ", len(rules), ctypes.addressof(code)))
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    check(LIBC.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def come_first() -> None:
    """Ask for real-time scheduling, else a better nice value: the router must not wait for those it serves.

    A kernel's own netem runs in interrupts, before any process; a guest that queues behind a busy JVM adds
    tens of milliseconds. Where neither is allowed (rootless), the certificate shows what that costs.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        try:
            os.nice(-15)
        except OSError:
            return


def tie_to(owner: int) -> None:
    """Leave a watcher behind that kills this process's group when the owner ends, however it ends.

    The guest cannot be asked: its SIGTERM handler, met while it powers off, spins for ever (one in forty).
    A lone SIGKILL (PR_SET_PDEATHSIG) would leave its traced helpers, which then run untraced on the host.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # a group of the guest's own: the caller's is not ours to kill
    ends = [os.pidfd_open(owner), os.pidfd_open(os.getpid())]
    child = os.fork()
    if child:  # what becomes the kernel: the watcher, two forks away, is no child of its
        os.waitpid(child, 0)
        for end in ends:
            os.close(end)
        return
    if os.fork():
        os._exit(0)
    watch(ends)


def watch(ends: list[int]) -> None:
    """Wait for the end of the owner or of the guest, holding nothing of either open; then kill the group."""
    kept = [-1, *sorted(ends), os.sysconf("SC_OPEN_MAX")]
    for low, high in itertools.pairwise(kept):
        os.closerange(low + 1, high)
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Take: the owner's pid, the path of the namespace, `first` or `equal`, `found` or `narrow`, then the command.

    `narrow` hides the wide registers also where the processor's would fit.
    """
    owner, namespace, priority, registers, *argv = sys.argv[1:]
    handle = os.open(namespace, os.O_RDONLY)
    check(LIBC.setns(handle, CLONE_NEWNET), "setns")
    os.close(handle)
    if priority == "first":
        come_first()
    tie_to(int(owner))
    if os.getppid() != int(owner):
        return  # the owner died before the tie was made
    if registers == "narrow" or has_wide_registers():
        hide_extended_registers()
        argv[1:1] = (
            RESTRICTIONS  # before the command's own words: of two with one name the kernel takes the later
        )
    os.execv(argv[0], argv)  # noqa: S606 - that is its whole purpose


if __name__ == "__main__":
    main()
