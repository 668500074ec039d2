"""Print what pip has to install before the project itself: the pins of pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: str, extras: list[str]) -> list[str]:
    """Return the pins of the build system, the project and the named extras, each once."""
    document = tomllib.loads(pyproject)
    project = document["project"]
    # The back end needs `editables` for an editable install without isolation, and so without network.
    pins = [*document["build-system"]["requires"], *editables(project), *project["dependencies"]]
    for extra in extras:
        pins += project["optional-dependencies"][extra]
    return list(dict.fromkeys(pins))


def editables(project: dict[str, dict[str, list[str]]]) -> list[str]:
    return [pin for pin in project["optional-dependencies"]["dev"] if pin.startswith("editables==")]


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    print("\n".join(requirements(text, sys.argv[1:])))
    # Commands are made at installation: a new one must change this list too.
    print(f"# {tomllib.loads(text)['project']['scripts']}")
