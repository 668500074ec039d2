"""The bare chroot: what it is told of this machine's package clients, its steps, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ivsim.testbed.paths import ROOT

SETUP = ROOT / "setup"
# Lines `origin|address|codename|component`, as `apt-get indextargets` prints them.
TARGETS = """\
Debian|http://mirror/debian/|bookworm|main
Debian|http://mirror/debian/|bookworm|contrib
Debian|http://mirror/debian/|bookworm-updates|main
Debian|http://mirror/security/|bookworm-security|main
Debian Backports|http://mirror/debian/|bookworm-backports|main
Docker|https://elsewhere/|bookworm|stable
"""


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SETUP)
    monkeypatch.delitem(sys.modules, "host_clients", raising=False)
    import host_clients  # noqa: PLC0415 - beside the script, not a package

    return host_clients


@pytest.fixture
def bare(clients: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delitem(sys.modules, "bare", raising=False)
    import bare  # noqa: PLC0415

    return bare


def test_sources_are_debians_alone_and_of_the_release_asked_for(clients: ModuleType) -> None:
    assert clients.apt_sources(TARGETS, "bookworm", "trixie") == [
        f"deb [signed-by={clients.KEYRING}] http://mirror/debian/ trixie main contrib",
        f"deb [signed-by={clients.KEYRING}] http://mirror/debian/ trixie-updates main",
        f"deb [signed-by={clients.KEYRING}] http://mirror/security/ trixie-security main",
    ]


def test_a_machine_that_is_no_debian_gives_no_sources(clients: ModuleType) -> None:
    assert clients.apt_sources("Ubuntu|http://archive/|noble|main\n", "noble", "bookworm") == []


def test_lists_that_an_image_left_out_are_fetched(
    clients: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os_release = tmp_path / "os-release"
    os_release.write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    said: list[str] = []

    def apt(argv: tuple[str, ...], **_: object) -> SimpleNamespace:
        said.append(argv[1])
        return SimpleNamespace(stdout=TARGETS if "update" in said else TARGETS.replace("Debian", ""))

    monkeypatch.setattr(clients.subprocess, "run", apt)
    assert len(clients.host_sources("bookworm", os_release)) == 3
    assert said == ["indextargets", "update", "indextargets"]


def test_of_apts_options_only_the_way_to_the_archive_is_told(clients: ModuleType) -> None:
    dump = (
        'APT::Architecture "amd64";\n'
        'Acquire::http::Proxy "http://proxy:3128";\n'
        'Acquire::Check-Date "false";\n'
        'Acquire::IndexTargets::deb::DEP-11 "";\n'
        'DPkg::Post-Invoke:: "rm -f /var/cache/apt/*.bin";\n'
    )
    assert clients.apt_options(dump).splitlines() == dump.splitlines()[1:3]


def test_the_environment_is_a_logins_with_what_steers_the_clients(clients: ModuleType) -> None:
    steering = {
        "https_proxy": "http://proxy:3128", "NO_PROXY": "localhost", "PIP_INDEX_URL": "https://index", "CI": "true",
        "PIP_CERT": "/ca.pem", "MAVEN_OPTS": "-Dx=y", "SSL_CERT_FILE": "/ca.pem",
    }  # fmt: skip
    others = {
        "PATH": "/elsewhere",
        "HOME": "/home/me",
        "LANG": "C",
        "IVSIM_JARS": "/jars",
        "PYTHONPATH": "/x",
    }
    others |= {
        "VIRTUAL_ENV": "/venv",
        "JAVA_HOME": "/java",
        "PIP_CACHE_DIR": "/cache",
        "MY_PROXY_SETTING": "1",
    }
    told = clients.environment(steering | others)
    assert told == steering | {"HOME": "/root", "PATH": clients.PATH}


def test_files_of_the_clients_are_copied_and_folders_shown(
    clients: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "host_apt_options", lambda: "")
    system, home, root = (tmp_path / name for name in ("system", "home", "chroot"))
    wheels, authority = tmp_path / "wheels", tmp_path / "authority.pem"
    texts = {
        system / "etc/pip.conf": f"[global]\ncert = {authority}\n",
        system / "usr/local/share/ca-certificates/ours.crt": "ours",
        home / ".m2/settings.xml": "<settings/>",
        root / "etc/pip.conf": "its own",
        authority: "certificate",
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    wheels.mkdir()
    shown = clients.carry(root, {"HOME": str(home), "PIP_FIND_LINKS": str(wheels)}, system)
    assert shown == [f"{wheels}={wheels}"]
    found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert found == {
        "etc/pip.conf": "its own",
        "usr/local/share/ca-certificates/ours.crt": "ours",
        "root/.m2/settings.xml": "<settings/>",
        str(authority.relative_to("/")): "certificate",
    }


def test_an_address_is_no_path(clients: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    texts = [f"https:/{tmp_path}/there", f"-Dstore={tmp_path}/there", f"{tmp_path}/gone"]
    assert clients.named_paths(texts) == {tmp_path / "there"}


def test_set_up_is_a_step_of_its_own_before_the_first_goal_that_needs_it(bare: ModuleType) -> None:
    assert list(bare.steps(["run", "test"])) == [
        ("set-up for make run", ["sh", "setup/install.sh", "run"]),
        ("make run", ["make", "run"]),
        ("set-up for make test", ["sh", "setup/install.sh", "test"]),
        ("make test", ["make", "test"]),
    ]
    assert [name for name, _ in bare.steps(["unit", "run"])] == [
        "set-up for make test",
        "make unit",
        "make run",
    ]


def test_what_is_not_committed_is_refused(
    bare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare, "ROOT", tmp_path)
    with pytest.raises(bare.NoChrootError, match="git checkout"):
        bare.refuse_what_is_not_committed()
    (tmp_path / "file").write_text("one")
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "file"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    bare.refuse_what_is_not_committed()
    (tmp_path / "file").write_text("two")
    with pytest.raises(bare.NoChrootError, match="commit or stash first: file"):
        bare.refuse_what_is_not_committed()


def test_the_clone_is_the_last_commit_and_follows_it(
    bare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "root" / "clone"
    monkeypatch.setattr(bare, "ROOT", source)
    source.mkdir()
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    for text in ("one", "two"):
        (source / "file").write_text(text)
        for words in (["add", "file"], [*who, "commit", "-q", "-m", "x"]):
            subprocess.run(["git", *words], cwd=source, check=True)
        (source / "untracked").touch()
        bare.clone(target)
        assert (target / "file").read_text() == text
        assert not (target / "untracked").exists()


def test_without_root_it_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(SETUP / "bare.sh")], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert re.fullmatch(r"setup: .*needs root.*\n", done.stderr)


@pytest.mark.netns
@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_an_exit_code_is_handed_on(bare: ModuleType, command: str, code: int) -> None:
    assert bare.run_apart(["sh", "-c", f"sh -c '{command}'; exit $?"], os.environ) == code


LONG_STEP = """
import os, sys
sys.path.insert(0, sys.argv[1])
import bare
bare.end_on_signals()
with bare.chroot_directory(None) as directory:
    asleep = f"sleep 3600.{os.getpid()} & until grep -q sleep /proc/$!/comm; do true; done"
    script = f"mount -t tmpfs ours {directory}; {asleep}; echo {directory}; wait"
    bare.run_apart(["--mount-proc", "sh", "-c", script], os.environ)
"""


@pytest.mark.netns
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    argv = [sys.executable, "-c", LONG_STEP, str(SETUP)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            directory = process.stdout.readline().strip()
            mark = f"sleep\0003600.{process.pid}\0"
            assert mark in _command_lines()
            assert list(Path(directory).iterdir()) == []  # its file system is its own
        finally:
            process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
    assert mark not in _command_lines()
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def _command_lines() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.add(path.read_text(errors="replace"))
        except OSError:  # it has ended since
            continue
    return found
