"""The recorded drives that tests read in place; none is copied into the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).parents[4] / "shared" / "traces-real"


@pytest.fixture(scope="session")
def real() -> Path:
    folder = Path(os.environ.get("IVSIM_TRACES_REAL", _DEFAULT))
    if not folder.is_dir():
        pytest.fail(
            f"the recorded drives are missing: no folder {folder} (set IVSIM_TRACES_REAL to where they are)"
        )
    return folder
