"""Which code this is: version and commit."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata

from ivsim.testbed.paths import PACKAGE_DIR, ROOT


def version_line() -> str:
    """Return name, version and commit."""
    return f"ivsim {metadata.version('ivsim')} ({commit() or 'commit unknown'})"


def commit() -> str | None:
    """Return the commit of the code: the clone's, with a mark when files differ, the wheel's, or the one that pip installed."""
    if (ROOT / ".git").exists():
        return _said("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*")
    noted = PACKAGE_DIR / "data" / "commit"
    if noted.is_file():
        return noted.read_text().strip()
    # PEP 610: pip notes where a package came from, unless that was an index.
    direct = metadata.distribution("ivsim").read_text("direct_url.json")
    found = json.loads(direct).get("vcs_info", {}).get("commit_id") if direct else None
    return None if found is None else str(found)[:12]


def _said(*argv: str) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
