from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ivsim.testbed.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = [*PROJECT["dependencies"], *(pin for extra in EXTRAS.values() for pin in extra)]
CONSTRAINTS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] not in {"#", ""}
]


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {**os.environ, **environment}
    return subprocess.run(
        ["/bin/sh", *words], capture_output=True, text=True, cwd=ROOT, env=inherited, check=False
    )


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "setup" / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("line", [*PINS, *CONSTRAINTS])
def test_every_version_is_pinned_and_no_address_is_recorded(line: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]+==([0-9]+!)?[0-9][0-9A-Za-z.]*", line)


def test_constraints_hold_only_what_we_do_not_name_ourselves() -> None:
    def names(lines: list[str]) -> set[str]:
        return {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}

    assert names(PINS) & names(CONSTRAINTS) == set()


def is_installed(line: str) -> bool:
    """Tell whether the pin is needed here: some are for older Pythons or for other systems alone."""
    try:
        return bool(importlib.metadata.distribution(line.split("==", maxsplit=1)[0]))
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize("line", [*PINS, *filter(is_installed, CONSTRAINTS)])
def test_every_pin_installs_on_the_oldest_python_we_promise(line: str) -> None:
    name, version = line.split("==")
    installed = importlib.metadata.distribution(name)
    assert installed.version == version
    oldest = re.fullmatch(r">=(\d+\.\d+)", PROJECT["requires-python"])[1] + ".0"
    assert SpecifierSet(installed.metadata["Requires-Python"] or "").contains(oldest)


def test_pip_gets_the_build_back_end_first_and_each_pin_once() -> None:
    wanted = module("requirements").requirements((ROOT / "pyproject.toml").read_text(), list(EXTRAS))
    assert wanted[0].startswith("hatchling==")
    assert len(wanted) == len(set(wanted))
    assert set(PINS) <= set(wanted)


@pytest.mark.parametrize("script", sorted((ROOT / "setup").glob("*.sh")), ids=lambda path: path.name)
def test_the_shell_can_read_every_script(script: Path) -> None:
    assert shell("-n", str(script)).returncode == 0


def test_nothing_installed_means_everything_is_named(tmp_path: Path) -> None:
    for tool in ("grep", "find", "sed", "head"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    # The script itself looks in the sbin directories, so those programs are not asked for here.
    missing = shell("setup/packages.sh", "missing", "test", PATH=str(tmp_path)).stdout.split()
    assert {"python3-venv", "java", "util-linux", "tshark", "busybox"} <= set(missing)


def test_a_run_asks_for_less_than_the_tests(tmp_path: Path) -> None:
    (tmp_path / "grep").symlink_to(shutil.which("grep"))
    for_run, for_test = (
        set(shell("setup/packages.sh", "missing", kind, PATH=str(tmp_path)).stdout.split())
        for kind in ("run", "test")
    )
    assert for_run < for_test


def test_the_site_asks_for_python_alone(tmp_path: Path) -> None:
    assert shell("setup/packages.sh", "missing", "docs", PATH=str(tmp_path)).stdout.split() == [
        "python3-venv"
    ]


def test_the_bare_chroot_has_needs_of_its_own(tmp_path: Path) -> None:
    # As above, programs in the sbin directories are found whatever PATH says.
    missing = shell("setup/packages.sh", "missing", "bare", PATH=str(tmp_path)).stdout.split()
    assert {"mmdebstrap", "git"} <= set(missing)
    assert "java" not in missing


def test_a_word_it_does_not_know_is_refused() -> None:
    done = shell("setup/install.sh", "everything")
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_ci_can_start_make_test_in_a_bare_chroot() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = re.sub(r"(?m)^#.*$", "", script.read_text())
    assert "setup/bare.sh test" in commands


def test_the_jars_of_each_purpose_are_kept_apart() -> None:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    jars = ROOT / "compose" / "jars"
    modules = [node.text for node in ET.parse(jars / "pom.xml").findall("m:modules/m:module", space)]
    folders = [
        ET.parse(jars / name / "pom.xml").find(".//m:outputDirectory", space).text.rsplit("/", 1)[1]
        for name in modules
    ]
    assert modules == folders == ["java", "kafka", "spark"]
