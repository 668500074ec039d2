"""`ivsim setup` of an installed wheel: what is fetched, bundled, taken from a bundle, and refused."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ivsim.commands import setup
from ivsim.testbed import jars, paths
from ivsim.testbed.kafka import java_command
from schemas.errors import Refusal

CLONE = paths.ROOT


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is left when only the wheel's files are there: its configurations, and a user's cache folder."""
    package = tmp_path / "site-packages" / "ivsim"
    shutil.copytree(CLONE / "compose" / "jars", package / "data" / "compose" / "jars")
    monkeypatch.setattr(paths, "PACKAGE_DIR", package)
    monkeypatch.setattr(paths, "ROOT", package.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IVSIM_JARS", raising=False)
    return tmp_path


def filled(root: Path) -> dict[str, bytes]:
    """Put two jars of each kind there; return them by name."""
    made = {f"{kind}/{name}-1.2.jar": f"{kind} {name}".encode() * 99 for kind in paths.JARS for name in "ab"}
    for name, data in made.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return made


def held(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_wheel_keeps_jars_in_the_users_cache_and_says_so(wheel: Path) -> None:
    root = wheel / "cache" / "ivsim" / f"jars-{paths.jars_digest()}"
    assert paths.jars_root() == root
    with pytest.raises(Refusal, match=re.escape(f"no spark jars in {root}/spark: run `ivsim setup` (or set")):
        paths.installed_jars("spark")
    assert not jars.fetched()


def test_a_clone_is_told_its_own_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IVSIM_JARS", str(tmp_path))
    with pytest.raises(Refusal, match="run `make setup`"):
        paths.installed_jars("kafka")
    for command in (setup.command, lambda: setup.command(from_=tmp_path / "b.zip"), jars.fetch):
        with pytest.raises(Refusal, match=r"^this is a clone, not an installed wheel: `make setup` fetches"):
            command()


def test_system_packages_have_the_command_that_there_is(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(wheel))
    with pytest.raises(
        Refusal, match=r"^no Java found: `apt-get install default-jre-headless`, version 17 or"
    ):
        java_command()
    monkeypatch.setattr(paths, "ROOT", CLONE)
    with pytest.raises(Refusal, match=r"^no Java found: run `make setup`, or `apt-get install default-jre"):
        java_command()


def test_other_jars_have_another_folder(wheel: Path) -> None:
    before = paths.jars_root()
    pom = paths.compose_dir() / "jars" / "kafka" / "pom.xml"
    pom.write_text(pom.read_text().replace("4.3.1", "4.3.2"))
    assert paths.jars_root() != before


def test_a_bundle_brings_what_was_there(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(paths.jars_root())
    setup.command(bundle=wheel / "jars.zip")
    assert not (wheel / "jars.zip.part").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(wheel / "other"))
    assert not jars.fetched()
    setup.command(from_=wheel / "jars.zip")
    assert jars.fetched()
    assert held(paths.jars_root()) == made
    # Once more replaces them, and leaves what else is there.
    (paths.jars_root() / "kafka" / "old-1.jar").write_bytes(b"")
    (paths.jars_root() / "pulsar").mkdir()
    setup.command(from_=wheel / "jars.zip")
    assert held(paths.jars_root()) == made
    assert (paths.jars_root() / "pulsar").is_dir()


def test_a_part_is_fetched_and_bundled_alone(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = filled(paths.jars_root())
    shutil.copytree(CLONE / "compose" / "s3", paths.compose_dir() / "s3")
    root = paths.jars_root()
    with pytest.raises(
        Refusal, match=re.escape(f"no s3 jars in {root}/s3: run `ivsim setup s3` (or set IVSIM_JARS")
    ):
        setup.command("s3", bundle=wheel / "s3.zip")
    (root / "s3").mkdir()
    (root / "s3" / "hadoop-aws-3.jar").write_bytes(b"s3a")
    setup.command("s3", bundle=wheel / "s3.zip")
    shutil.rmtree(root / "s3")
    with pytest.raises(Refusal, match="of another version"):
        setup.command(from_=wheel / "s3.zip")
    setup.command("s3", from_=wheel / "s3.zip")
    version = paths.jars_digest(("s3",))
    assert held(root) == {**made, "s3/hadoop-aws-3.jar": b"s3a", "s3/.digest": f"{version}\n".encode()}
    assert jars.fetched(("s3",))
    (root / "s3" / ".digest").write_text("older")
    assert not jars.fetched(("s3",))
    (root / "s3" / ".digest").write_text(version)
    setup.command("s3")
    assert capsys.readouterr().out.splitlines()[-1] == "The jars are there."
    with pytest.raises(Refusal, match=r"^PART 'gcs': allowed is s3, or none for what every run needs$"):
        setup.command("gcs")


def changed(data: bytes, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> bytes:
    """Return a bundle with other contents."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said = json.loads(members.pop(jars.CONTENTS))
    change(members, said)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(jars.CONTENTS, json.dumps(said))
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


def _other_version(_: dict[str, bytes], said: dict[str, Any]) -> None:
    said["jars"] = "00000000"


def _damaged(members: dict[str, bytes], _: dict[str, Any]) -> None:
    members["spark/a-1.2.jar"] = b"other"


def _one_more(members: dict[str, bytes], _: dict[str, Any]) -> None:
    members["spark/c-1.jar"] = b""


def _one_less(members: dict[str, bytes], _: dict[str, Any]) -> None:
    del members["kafka/a-1.2.jar"]


def _outside(members: dict[str, bytes], said: dict[str, Any]) -> None:
    members["kafka/../../x.jar"] = members["kafka/a-1.2.jar"]
    said["sha256"]["kafka/../../x.jar"] = said["sha256"]["kafka/a-1.2.jar"]


def _says_nothing(_: dict[str, bytes], said: dict[str, Any]) -> None:
    said["sha256"] = ["x"]


def _one_kind(members: dict[str, bytes], said: dict[str, Any]) -> None:
    for name in [name for name in members if name.startswith("spark/")]:
        del members[name], said["sha256"][name]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_other_version, "of another version: it has the jars 00000000, and this one takes "),
        (_damaged, r"spark/a-1\.2\.jar is damaged: its sha256 is not the one that bundle\.json says"),
        (_one_more, r"'spark/c-1\.jar' is not what it says it holds"),
        (_one_less, r"'kafka/a-1\.2\.jar' is not what it says it holds"),
        (_outside, r"'kafka/\.\./\.\./x\.jar' is not what it says it holds"),
        (_says_nothing, r"bundle\.json does not say what it holds"),
        (_one_kind, "no jars of spark came"),
    ],
)
def test_what_is_no_bundle_changes_nothing(
    wheel: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None], reason: str
) -> None:
    filled(paths.jars_root())
    jars.pack(wheel / "jars.zip")
    before = held(wheel / "cache")
    bundle = wheel / "bad.zip"
    bundle.write_bytes(changed((wheel / "jars.zip").read_bytes(), change))
    with pytest.raises(Refusal, match=reason):
        jars.unpack(bundle)
    assert held(wheel / "cache") == before
    assert not [path for path in wheel.rglob("*") if path.name.startswith(".new-") or path.name == "x.jar"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and no more", b"\0" * 4_000])
def test_a_file_that_is_no_archive_is_refused(wheel: Path, data: bytes) -> None:
    (wheel / "b.zip").write_bytes(data)
    with pytest.raises(Refusal, match=r"b\.zip: no bundle of `ivsim setup`: "):
        jars.unpack(wheel / "b.zip")
    assert not (wheel / "cache").exists()


def test_every_cut_of_a_bundle_is_refused(wheel: Path) -> None:
    filled(paths.jars_root())
    jars.pack(wheel / "jars.zip")
    data, before = (wheel / "jars.zip").read_bytes(), held(wheel / "cache")
    for size in range(0, len(data), 61):
        (wheel / "cut.zip").write_bytes(data[:size])
        with pytest.raises(Refusal, match=r"cut\.zip: no bundle"):
            jars.unpack(wheel / "cut.zip")
    assert held(wheel / "cache") == before


def test_files_and_folders_that_are_not_there_are_one_line(wheel: Path) -> None:
    with pytest.raises(Refusal, match=r"none\.zip: No such file or directory$"):
        jars.unpack(wheel / "none.zip")
    with pytest.raises(Refusal, match="no kafka jars in "):
        jars.pack(wheel / "b.zip")
    filled(paths.jars_root())
    with pytest.raises(Refusal, match=r"nowhere/b\.zip: No such file or directory$"):
        jars.pack(wheel / "nowhere" / "b.zip")
    with pytest.raises(Refusal, match=r"^--bundle with --from: one of them$"):
        setup.command(bundle=wheel / "a", from_=wheel / "b")


def test_a_maven_that_fails_says_why_and_leaves_nothing(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven itself fetches in setup/check_wheel.py; here it ends as it does without a network."""
    maven = wheel / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\necho '[WARNING] slow'; echo '[ERROR] Could not transfer artifact'; exit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/usr/bin:/bin")
    with pytest.raises(Refusal, match=r"^Maven could not fetch the jars: Could not transfer artifact$"):
        setup.command()
    assert held(wheel / "cache") == {}


def test_what_is_there_is_not_fetched_again(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(paths.jars_root())
    monkeypatch.setenv("PATH", str(wheel))
    setup.command()
    assert capsys.readouterr().out == "The jars are there.\n"
