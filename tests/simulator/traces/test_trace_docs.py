"""The commands of docs/traces.md, typed as they stand there, print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ivsim.commands.trace import app
from simulator.traces.importers import IMPORTERS

PAGE = Path(__file__).parents[3] / "docs" / "traces.md"
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n", 1)[0][:40])
def test_console_blocks_are_true(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("drive.txt").write_text("0,1.5\n1,2\n3,0\n")
    for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        words = shlex.split(command)
        assert words[:2] == ["ivsim", "trace"]
        result = CliRunner().invoke(app, words[2:])
        assert result.exit_code == 0, result.exception
        assert result.output == printed


def test_every_importer_is_on_the_page():
    for name in IMPORTERS:
        assert f"| `{name}` |" in PAGE.read_text()
