"""Every program that the code starts is part of each Debian, or of a package that set-up installs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from ivsim.testbed.paths import ROOT

FOLDERS = ("ivsim", "simulator", "gateways", "twin", "schemas", "tests", "bench", "setup")
# Essential in Debian, or what the README asks for before its two commands.
EVERYWHERE = {"apt-config", "apt-get", "grep", "sh", "sleep", "true", "git", "make"}
# Used where there is one; nothing is tested by it that is not tested without.
# ... and what a test makes up.
OPTIONAL = {"docker", "ping", "systemd-analyze", "toy-broker", "no-such-program"}
PACKAGES = {
    "busybox": "busybox",
    "coap-client-notls": "libcoap3-bin",
    "coap-server-openssl": "libcoap3-bin",
    "chromium": "chromium",
    "epmd": "rabbitmq-server",
    "flatc": "flatbuffers-compiler",
    "ip": "iproute2",
    "java": "java",
    "linux.uml": "user-mode-linux",
    "mkfs.ext4": "e2fsprogs",
    "mosquitto": "mosquitto",
    "protoc": "protobuf-compiler",
    "mosquitto_passwd": "mosquitto",
    "mosquitto_pub": "mosquitto-clients",
    "mosquitto_sub": "mosquitto-clients",
    "mount": "mount",
    "mvn": "maven",
    "nsenter": "util-linux",
    "python3": "python3-venv",
    "rabbitmq-server": "rabbitmq-server",
    "rabbitmqctl": "rabbitmq-server",
    "redis-server": "redis-server",
    "setpriv": "util-linux",
    "tc": "iproute2",
    "tshark": "tshark",
    "umount": "mount",
    "unshare": "util-linux",
}
# Calls that start or look for a program, and which argument names it.
STARTS = {
    "subprocess.run": 0,
    "subprocess.Popen": 0,
    "asyncio.create_subprocess_exec": 0,
    "OwnedProcess": 1,
    "ServerKind": 1,
}
LOOKS = ("shutil.which", "program", "where", "_program", "_said")
LISTS = re.compile(r"(_?argv|command|UNSHARE|NAMESPACES|probe|PROGRAMS|CHROMIUMS|CHROMIUM)")


def _sources() -> list[str]:
    return [path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def _called(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name in STARTS and len(node.args) > STARTS[name]:
                yield from _first(node.args[STARTS[name]])
            elif name in LOOKS and node.args:
                yield node.args[0]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if LISTS.fullmatch(_dotted(target)):
                yield from _first(node.value)


def _dotted(node: ast.expr) -> str:
    """Return a name and what follows it by dots, "" where it is no name."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _first(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the first word of a command; the keys of a table of programs; the value of a path."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        yield from _first(node.elts[0].value if isinstance(node.elts[0], ast.Starred) else node.elts[0])
    elif isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    elif isinstance(node, ast.Constant):
        yield node


def _programs() -> set[str]:
    """Return the programs named in calls, and those that begin a line of a script kept in Python."""
    texts = _sources()
    words = (node for text in texts for node in _called(ast.parse(text)))
    found = {str(word.value).split("/")[-1] for word in words if isinstance(word, ast.Constant)}
    begun = re.compile(rf'"({"|".join(map(re.escape, PACKAGES))}) [a-z]+ ')
    scripts = {name for text in texts for name in begun.findall(text)}
    return {name for name in found | scripts if re.fullmatch(r"[a-z][a-z0-9_.-]*", name)}


# What is missing makes `make bare` fail as well, later.
@pytest.mark.full
def test_a_program_that_is_started_comes_with_a_package() -> None:
    script = (ROOT / "setup" / "packages.sh").read_text()
    asked_for = set(re.findall(r"(?:echo|optional [a-z.]+) ([a-z0-9-]+)", script))
    started = _programs() - EVERYWHERE - OPTIONAL
    assert {name for name in started if PACKAGES.get(name, name) not in asked_for} == set()
    assert {"java", "mosquitto", "tshark"} <= started
