from __future__ import annotations

import pytest

from ivsim.study.corpus import status_of
from schemas.messages import CurrentStatus

VARIANTS = ("rigid", "trailer", "hybrid", "stub")


@pytest.fixture(params=VARIANTS)
def status(request: pytest.FixtureRequest) -> CurrentStatus:
    return status_of(request.param, seed=5)
