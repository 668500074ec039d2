"""A machine whose kernel loses registers says so, and is refused where its programs would use them."""

import os
import subprocess
import sys
import time

import pytest

from ivsim.testbed.machine import Machine
from ivsim.testbed.process import ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from simulator.links.uml import launch, registers
from simulator.links.uml.router import register_check

KINDS = list(registers.KINDS)
WIDEST = registers.widest()
HERE = KINDS[: KINDS.index(WIDEST) + 1]
# vzeroupper takes all that is beyond SSE's of the first 16 registers.
LOSES = {
    "SSE": (bytes.fromhex("450f57c9"), {"SSE"}),  # xorps xmm9, xmm9
    "AVX": (bytes.fromhex("c5f877"), {"AVX", "AVX-512"} & set(HERE)),  # vzeroupper
    "AVX-512": (bytes.fromhex("62a17540efc9"), {"AVX-512"}),  # vpxord zmm17, zmm17, zmm17
}


def lost_by(between):
    lost = set()
    with registers.Code(registers.routine(WIDEST, between)) as code:
        registers.kept_by_one(WIDEST, code.address, 0, lost, seconds=0.005)
    return lost


@pytest.mark.parametrize("kind", HERE)
def test_what_is_lost_in_between_is_seen(kind):
    between, lost = LOSES[kind]
    assert lost_by(between) == lost


def test_a_kernel_that_keeps_all_is_said_to():
    assert lost_by(registers.YIELD_AND_TOUCH) == set()
    done = subprocess.run(register_check(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, registers.KEPT, "")


@pytest.mark.parametrize(
    ("kind", "at", "lost"),
    [
        ("SSE", 255, "SSE"),
        ("AVX", 32 * 15 + 15, "SSE"),
        ("AVX", 32 * 15 + 16, "AVX"),
        ("AVX-512", 64 * 15 + 31, "AVX"),
        ("AVX-512", 64 * 15 + 32, "AVX-512"),
        ("AVX-512", 64 * 16, "AVX-512"),
    ],
)
def test_each_byte_belongs_to_a_kind(kind, at, lost):
    count, width_bytes = registers.KINDS[kind]
    before = bytes([1]) * (count * width_bytes)
    assert registers.changed(kind, before, before[:at] + b"\0" + before[at + 1 :]) == {lost}
    assert registers.changed(kind, before, before) == set()


@pytest.mark.parametrize(
    ("lost", "restricted", "starts"),
    [
        ([], False, True),
        (["AVX"], True, True),
        (["AVX", "AVX-512"], True, True),
        (["AVX"], False, False),
        (["AVX-512"], False, False),
        (["SSE"], True, False),
        (["SSE", "AVX"], True, False),
    ],
)
def test_programs_start_where_nothing_that_they_use_is_lost(lost, restricted, starts):
    said = registers.verdict(lost, restricted)
    assert said.startswith(registers.REFUSED) is not starts
    assert all(kind in said for kind in lost)


def test_programs_are_told_by_every_word_or_not_at_all():
    environment = dict(word.split("=", 1) for word in launch.RESTRICTIONS)
    assert registers.restricted_by(launch.RESTRICTIONS, environment)
    for name in environment:
        assert not registers.restricted_by(launch.RESTRICTIONS, environment | {name: ""})
        assert not registers.restricted_by(
            launch.RESTRICTIONS, {other: environment[other] for other in environment if other != name}
        )


class Untold(Machine):
    """One whose Java is told something else."""

    def _kernel(self, disk, init):
        return [*super()._kernel(disk, init), "JDK_JAVA_OPTIONS=-Xshare:auto"]


@pytest.fixture
def said(tmp_path):
    """Return what a machine says from its start to its end, with a server that tells its environment."""

    def run(kind, *, narrow):
        directory = tmp_path / "server"
        directory.mkdir()
        with (
            RunRecord(f"l{time.time_ns():x}-{os.getpid() % 0xFFFFFF:06x}", tmp_path) as record,
            kind(record, 256, narrow=narrow) as machine,
            machine.launch("server", directory, ["env"], record) as process,
        ):
            with pytest.raises((ProcessDied, Refusal)) as end:
                process.wait_ready(lambda: False, 60)
            return end.value, process.log_path.read_text()

    return run


@pytest.mark.netns
@pytest.mark.parametrize("narrow", [False, True])
def test_programs_are_told_where_the_kernel_keeps_only_sse(said, narrow):
    end, log = said(Machine, narrow=narrow)
    assert isinstance(end, ProcessDied)
    assert "server on the machine ended with exit code 0" in log
    hidden = narrow or launch.has_wide_registers()
    assert (set(launch.RESTRICTIONS) <= set(log.splitlines())) is hidden
    assert ("JAVA_OPTIONS" in log) is hidden
    assert (f"{registers.LOST}AVX" in log) is (hidden and WIDEST != "SSE")
    assert (registers.KEPT in log) is not (hidden and WIDEST != "SSE")


@pytest.mark.netns
@pytest.mark.skipif(WIDEST == "SSE", reason="this processor has no wide registers to lose")
def test_a_machine_is_refused_whose_programs_would_use_what_it_loses(said):
    end, log = said(Untold, narrow=True)
    assert isinstance(end, Refusal)
    assert str(end).startswith("server on a machine of its own: the kernel of such a machine loses AVX")
    assert "\n" not in str(end)
    assert "HOME=/" not in log


OPENSSL = """
import _ssl, ctypes
told = ctypes.CDLL(_ssl.__file__).OPENSSL_info
told.restype, told.argtypes = ctypes.c_char_p, [ctypes.c_int]
print(told(1008).decode())  # OPENSSL_INFO_CPU_SETTINGS
"""


def test_openssl_does_as_it_is_told():
    """A word that it cannot read it passes over in silence: what it has taken shows."""
    name, _, value = launch.OPENSSL_WITHOUT_AVX.partition("=")
    done = subprocess.run(
        [sys.executable, "-c", OPENSSL], env={name: value}, capture_output=True, text=True, check=True
    )
    taken = done.stdout.split()[0].removeprefix("OPENSSL_ia32cap=").split(":")
    for bits, vector in zip(launch.OPENSSL_BITS, taken, strict=False):
        assert int(vector, 16) & sum(1 << bit for bit in bits) == 0
    assert int(taken[0], 16) & 1 << 26, "SSE2 stays"
