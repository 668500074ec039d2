"""What import-linter is told by a list is held to the folders that the list is of."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRACTS = {
    one["name"]: one
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def modules_of(package: str) -> set[str]:
    paths = (ROOT / package.replace(".", "/")).iterdir()
    return {
        f"{package}.{path.stem}" for path in paths if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


def test_the_simulator_may_see_nothing_of_gateways_but_the_protocols() -> None:
    forbidden = set(CONTRACTS["the simulator sees the protocols, not the bridge"]["forbidden_modules"])
    assert modules_of("gateways") - {"gateways.__init__", "gateways.protocols"} == forbidden


def test_no_engine_may_see_another() -> None:
    # Beside the engines stand their protocol, and the axes that those which make runs have in common.
    shared = {f"ivsim.study.engines.{name}" for name in ("__init__", "base", "run_axes")}
    engines = modules_of("ivsim.study.engines") - shared
    assert engines == set(CONTRACTS["engines know nothing of each other"]["modules"])
    assert engines == set(CONTRACTS["generic studies know no engine but by the table"]["forbidden_modules"])
