from __future__ import annotations

from collections.abc import Iterator

import pytest
from end_to_end_runs import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()
