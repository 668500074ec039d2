"""The names that the twin uses though PySpark keeps them to itself are still there (docs/decisions/twin-fold.md)."""

from __future__ import annotations

import ast
from pathlib import Path

from pyspark import SparkContext

TWIN = Path(__file__).resolve().parents[2] / "twin"
PRIVATE = {"_gateway", "_jvm", "_ensure_initialized"}


def test_pyspark_still_has_them() -> None:
    assert set(vars(SparkContext)) >= PRIVATE


def test_the_twin_uses_no_others_and_in_one_file() -> None:
    used: dict[str, set[str]] = {}
    for path in sorted(TWIN.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # `KafkaError._PARTITION_EOF` and its like are public, and so is `os._exit`.
            own = (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in {"self", "KafkaError", "os"}
            )
            if (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not own
                and not node.attr.startswith("__")
            ):
                used.setdefault(path.name, set()).add(node.attr)
    assert used == {"jvm.py": PRIVATE}
