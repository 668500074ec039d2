"""Patterns of our own: a digit is one of ASCII's, for what reads the number behind it may know no other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ivsim", "simulator", "gateways", "twin", "schemas", "bench")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_pattern_takes_the_digits_of_other_scripts(package: str) -> None:
    r"""In a pattern of text `\d` is any of 700 characters, such as U+0F24, which int() takes and JSON does not."""
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\\d" in node.value
    ]
    assert found == []
