from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from ivsim import doctor as module
from ivsim.doctor import EXIT_LACKING, EXIT_WELL, doctor, examine
from ivsim.testbed import rabbitmq
from ivsim.testbed.programs import where
from ivsim.testbed.registry import ProcessMark


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(module, "link_states", lambda: {"uml": None, "direct": None})


def java_of(version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a Java of this version before any other."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")


def test_a_missing_part_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    java_of("11.0.2", tmp_path, monkeypatch)
    assert doctor(clean=False) == EXIT_LACKING
    printed = capsys.readouterr().out
    assert "Java" in printed
    assert "apt-get install default-jre-headless" in printed


def test_a_part_of_some_runs_only_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rabbitmq, "SERVER", tmp_path / "none")
    java_of("17.0.1", tmp_path, monkeypatch)
    monkeypatch.setattr(module, "jars_dir", lambda _kind: tmp_path)
    (tmp_path / "any.jar").touch()
    missing = [finding.part for finding in examine() if finding.found is None and not finding.essential]
    assert "rabbitmq-server" in missing
    assert doctor(clean=False) == EXIT_WELL


def test_without_an_emulating_link_no_run_can_be_made(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(module, "link_states", lambda: {"uml": "no linux.uml", "direct": None})
    assert doctor(clean=False) == EXIT_LACKING
    assert "no linux.uml" in capsys.readouterr().out


def test_a_package_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = ["rich==0.0.1", "nowhere==1.0", "elsewhere==1.0; extra == 'dev'"]
    monkeypatch.setattr(module.metadata, "requires", lambda _name: pins)
    finding = examine()[0]
    assert finding.found is None
    assert "wanted 0.0.1" in finding.remedy
    assert "nowhere missing" in finding.remedy
    assert "elsewhere" not in finding.remedy


def test_leftovers_are_listed_and_removed_only_when_asked(tmp_path: Path, capsys) -> None:
    run_id = uuid.uuid4().hex[:8]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "state").mkdir()
    dead = ProcessMark(2**22 + 1, 1)
    note = f'{{"kind":"scratch","owner":"{dead}","boot":"{dead.boot}","path":"{scratch}"}}\n'
    (tmp_path / "state" / f"{run_id}.jsonl").write_text(note)
    doctor(clean=False)
    assert scratch.exists()
    assert "ivsim doctor --clean" in capsys.readouterr().out
    doctor(clean=True)
    assert not scratch.exists()
    doctor(clean=False)
    assert "left nothing behind" in capsys.readouterr().out


def test_programs_outside_path_are_found() -> None:
    assert where("setpriv") is not None
    assert where("no-such-program") is None
