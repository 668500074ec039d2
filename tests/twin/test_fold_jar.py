"""The jar of the fold is found, or refused by name: a wheel's, a clone's, a missing and a stale one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from schemas.errors import Refusal
from twin import fold_jar


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with one source and nothing built."""
    package = tmp_path / "twin"
    sources = package / "fold" / "src" / "main" / "java"
    sources.mkdir(parents=True)
    (sources / "A.java").write_text("class A {}")
    monkeypatch.setattr(fold_jar, "PACKAGE", package)
    monkeypatch.setattr(fold_jar, "SOURCES", sources)
    return tmp_path


def write_jar(jar: Path, sources: str) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(
            "META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\n{fold_jar.SOURCES_KEY}: {sources}\n"
        )


def test_a_clone_without_it_is_told_to_set_up(clone: Path) -> None:
    with pytest.raises(Refusal, match=r"twin-fold\.jar: the twin's fold is not built: run `make setup`"):
        fold_jar.fold_jar()


def test_a_jar_of_other_sources_is_refused(clone: Path) -> None:
    write_jar(fold_jar.built_jar(), fold_jar.source_digest())
    assert fold_jar.fold_jar() == clone / ".jars" / "twin" / "twin-fold.jar"
    (fold_jar.SOURCES / "B.java").write_text("class B {}")
    with pytest.raises(Refusal, match="built from other sources"):
        fold_jar.fold_jar()


def test_a_wheel_has_its_own(clone: Path) -> None:
    jar = clone / "twin" / "twin-fold.jar"
    write_jar(jar, "0123")
    assert fold_jar.fold_jar() == jar
    assert fold_jar.digest() == "0123"


def test_the_digest_is_of_names_and_contents(clone: Path) -> None:
    before = fold_jar.source_digest()
    (fold_jar.SOURCES / "A.java").rename(fold_jar.SOURCES / "C.java")
    assert fold_jar.source_digest() != before
