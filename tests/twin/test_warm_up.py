"""A session is warmed once for each kind of run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.config import TwinConfig
from twin.rehearsal import BATCHES
from twin.warm import WarmUp, await_first_batch


def config(**fields: object) -> TwinConfig:
    return TwinConfig.model_validate({"run_dir": str(Path()), "bootstrap": "paper:1", **fields})


def test_the_first_run_of_a_kind_in_full_and_the_rest_by_a_record_of_each_key() -> None:
    warm = WarmUp()
    assert warm.records(config(warm_records=2_000)) == 250
    warm.served(config(), 0)
    assert warm.records(config()) == 1
    assert warm.records(config(trigger="microbatch")) == 250
    assert warm.records(config(live="spark")) == 250


def test_few_records_are_still_a_warm_up() -> None:
    assert WarmUp().records(config(warm_records=1)) == 2


def test_batch_boundaries_are_rehearsed_until_a_session_has_crossed_them() -> None:
    warm = WarmUp()
    assert warm.rehearse(config(rehearse=True))
    warm.served(config(rehearse=False), 0)
    warm.served(config(rehearse=True), BATCHES - 1)  # it took too long
    assert warm.rehearse(config(rehearse=True))
    warm.served(config(rehearse=True), BATCHES)
    assert not warm.rehearse(config(rehearse=True))
    assert not WarmUp().rehearse(config(rehearse=False))


def test_a_query_that_takes_no_batch_is_not_waited_for_for_ever() -> None:
    query: Any = SimpleNamespace(name="live", lastProgress=None)
    with pytest.raises(TimeoutError, match=r"query live took no batch in 0\.2 s"):
        await_first_batch([query], lambda: None, 0.2)
    query.lastProgress = {"numInputRows": 3}
    await_first_batch([query], lambda: None, 0.2)
