"""Links shared by the tests of a module, and a guest that runs one Python script of the host's."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from simulator.links import LINKS
from simulator.links.uml import router

ROOT = Path(__file__).resolve().parents[3]
LAUNCH = ROOT / "simulator/links/uml/launch.py"


def boot_and_run(script, directory, timeout_s=120):
    """Return the JSON after RESULT on the guest's console; the guest sees the host's files read-only."""
    modules = router.modules((*router.MODULES, "veth"))
    init = directory / "init"
    lines = [
        "#!/bin/sh",
        "busybox mount -t proc proc /proc",
        "busybox mount -t sysfs sys /sys",
        "busybox mount -t tmpfs tmpfs /run",
        "busybox mount -t tmpfs tmpfs /var/tmp",
        *(f"busybox insmod {module}" for module in modules),
        "busybox ip link set lo up",
        f"{sys.executable} -B {script} {ROOT}",
        "busybox poweroff -f",
    ]
    init.write_text("\n".join(lines) + "\n")
    init.chmod(0o755)
    command = [
        sys.executable,
        LAUNCH,
        str(os.getpid()),
        "/proc/self/ns/net",
        "first",
        "found",
        router.binary(),
    ]
    command += ["mem=256M", f"uml_dir={directory}", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]
    command += ["quiet", "con=null", "con0=null,fd:1"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    found = [line for line in text.splitlines() if line.startswith("RESULT ")]
    assert found, text[-3000:]
    return json.loads(found[0].removeprefix("RESULT "))


@pytest.fixture(scope="session")
def run_in_guest():
    return boot_and_run


@pytest.fixture
def run_name():
    return f"t{uuid.uuid4().hex[:7]}"


@pytest.fixture(scope="module")
def uml_link():
    """A router in user-mode Linux with 20 vehicles, shared by the tests of a module; each uses its own."""
    with LINKS["uml"](f"t{uuid.uuid4().hex[:7]}", 20) as link:
        yield link
