"""The recorded drives and made-up trials that tests read in place; none is copied into the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_SHARED = Path(__file__).parents[4] / "shared"
_DEFAULT = _SHARED / "traces-real"


@pytest.fixture(scope="session")
def real() -> Path:
    folder = Path(os.environ.get("IVSIM_TRACES_REAL", _DEFAULT))
    if not folder.is_dir():
        pytest.fail(
            f"the recorded drives are missing: no folder {folder} (set IVSIM_TRACES_REAL to where they are)"
        )
    return folder


@pytest.fixture(scope="session")
def trials() -> Path:
    folder = Path(os.environ.get("IVSIM_TRIALS", _SHARED / "trials"))
    if not folder.is_dir():
        pytest.fail(f"the small inputs are missing: no folder {folder} (set IVSIM_TRIALS to where they are)")
    return folder
