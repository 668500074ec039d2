from __future__ import annotations

import pytest

from ivsim.study.engines.codec.fuzz import fuzz
from schemas.formats import FORMATS


@pytest.mark.parametrize("inputs", [2_000, pytest.param(20_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_payloads_are_refused_by_one_exception(name, inputs):
    outcome = fuzz(name, inputs, seed=6)
    assert outcome.accepted + outcome.refused == outcome.inputs
    assert outcome.refused > outcome.inputs / 2
