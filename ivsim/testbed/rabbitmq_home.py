"""A home for a RabbitMQ node with the plug-ins that it needs alone, which starts in two thirds of the processor time.

Erlang looks for each of some 800 modules in one folder of plug-ins after the other until it has found it, and a
distribution has 70 of them: 52,000 files that are not there. The node's scripts take the folder in which they are
started for its home, so one of links to them, beside links to few plug-ins, is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# What the scripts start, whose own needs lead to the rest.
_STARTED: Final = ("rabbit", "rabbitmq_prelaunch")
_NEEDS: Final = re.compile(r"\{\s*(?:included_)?applications\s*,\s*\[([^\]]*)\]")


def make_home(home: Path, server: Path, plugins: Iterable[str]) -> Path | None:
    """Make a home for a node; return the folder of its scripts, None where RabbitMQ lies in another way than we know.

    Args:
        home: the folder to make.
        server: its start script, in the folder `sbin` of the installed home or a link into it.
        plugins: enabled ones.
    """
    installed = server.resolve().parents[1]
    folders = {
        path.name.rpartition("-")[0]: path for path in (installed / "plugins").glob("*-*") if path.is_dir()
    }
    if not all(name in folders for name in (*_STARTED, *plugins)):
        return None
    needed = _closure(folders, (*_STARTED, *plugins))
    (home / "plugins").mkdir(parents=True)
    (home / "sbin").mkdir()
    for folder in needed:
        (home / "plugins" / folder.name).symlink_to(folder)
    for script in (installed / "sbin").iterdir():
        (home / "sbin" / script.name).symlink_to(script)
    (home / "escript").symlink_to(installed / "escript")
    return home / "sbin"


def _closure(folders: dict[str, Path], started: Iterable[str]) -> list[Path]:
    """Return the folders of these applications and of all that they need; what is none of the folders is Erlang's own."""
    left, found = list(started), {}
    while left:
        name = left.pop()
        if name in folders and name not in found:
            found[name] = folders[name]
            says = (folders[name] / "ebin" / f"{name}.app").read_text(encoding="utf-8")
            left += [one.strip() for needs in _NEEDS.findall(says) for one in needs.split(",")]
    return list(found.values())
