"""Every command that a document shows exists, with each of its options; the two of the README are make's own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ivsim import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^(?:    |\$ |)(?:\.venv/bin/)?ivsim ([a-z][^#|>\n]*)", re.MULTILINE)


def _commands() -> list[tuple[str, str]]:
    found = []
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL)
        blocks += re.findall(r"(?:^    .+\n)+", text, re.MULTILINE)
        found += [(document.name, line.strip()) for block in blocks for line in COMMAND.findall(block)]
    return found


@pytest.mark.parametrize(("document", "command"), _commands())
def test_a_documented_command_exists(document: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # --help comes after all options have been recognised: an unknown one is refused first.
    monkeypatch.setattr(sys, "argv", ["ivsim", *shlex.split(command), "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0, f"{document}: ivsim {command}"


def test_the_readme_has_commands() -> None:
    assert any(document == "README.md" for document, _ in _commands())


@pytest.mark.parametrize("target", ["run", "test", "bench", "check", "docs"])
def test_make_has_the_documented_targets(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_link_in_the_documents_leads_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
