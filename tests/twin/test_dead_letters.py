"""The end of a run waits for each dead letter of the twin's, counts none twice and takes none of a gateway's; without Spark."""

from __future__ import annotations

import pytest

from tests.twin.made_up import MadeUpRun
from twin.dead_letters import await_written

pytestmark = pytest.mark.kafka


def letter(run: MadeUpRun, **said: object) -> None:
    headers = [(name, str(value).encode()) for name, value in {"reason": "no_key", **said}.items()]
    run.produce(run.config.topics.dead_letter, None, b"x", headers)
    run.flush()


def test_each_bad_record_has_its_dead_letter(run: MadeUpRun) -> None:
    asked: list[None] = []
    for _ in range(2):  # the second time by a query that starts again
        letter(run, partition=0, offset=7)
        letter(run, partition=1, offset=7)
    letter(run)  # a gateway's
    await_written(run.config, 2, lambda: asked.append(None), 10.0)
    with pytest.raises(TimeoutError, match=r"2 of 3 dead letters of the twin are in \S+ after 1 s"):
        await_written(run.config, 3, lambda: asked.append(None), 1.0)
    letter(run, partition=0, offset=8)
    await_written(run.config, 3, lambda: asked.append(None), 10.0)
    assert len(asked) >= 3


def test_nothing_is_asked_where_no_record_is_bad(run: MadeUpRun) -> None:
    await_written(run.config.model_copy(update={"bootstrap": "127.0.0.1:1"}), 0, lambda: None, 0.0)


def test_a_query_that_has_died_ends_the_wait(run: MadeUpRun) -> None:
    def died() -> None:
        raise ValueError("query dead-letter: ended")

    with pytest.raises(ValueError, match="query dead-letter: ended"):
        await_written(run.config, 1, died, 30.0)
