"""What the end of a run reads of Kafka: each topic once, and again only where it has grown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twin import drain
from twin.records import TopicRows
from twin.run_topics import STATE, STATUS, Ends, RunTopics, Topic


class Paper:
    """Two topics on paper: what Kafka answers one after the other, and what was read."""

    def __init__(self, status: list[Ends], state: list[Ends]) -> None:
        self.read: list[tuple[str, Ends]] = []
        self.forgotten: list[str] = []
        self.topics = RunTopics(
            {STATUS: self._topic(STATUS, status), STATE: self._topic(STATE, state)}, "paper:1"
        )

    def _topic(self, name: str, answers: list[Ends]) -> Topic:
        def ends() -> Ends:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if not answer:
                raise OSError("Kafka is away")
            return answer

        def rows(ends: Ends) -> TopicRows:
            self.read.append((name, ends))
            frame: Any = SimpleNamespace(unpersist=lambda: self.forgotten.append(name))
            count = sum(ends.values())
            counts = {STATUS: {"good": count, "rejected": 0}, STATE: {"updates": count, "taken": count}}
            return TopicRows(frame, counts[name])

        return Topic(name, ends, rows)


def test_what_stays_as_it_is_is_read_once() -> None:
    paper = Paper([{0: 3, 1: 2}], [{0: 5, 1: 0}])
    assert drain.await_applied(paper.topics, lambda: None, 1.0) is None
    assert paper.topics.taken_and_due() == (5, 5)
    assert sorted(paper.read) == [(STATE, {0: 5, 1: 0}), (STATUS, {0: 3, 1: 2})]
    paper.topics.close()
    assert sorted(paper.forgotten) == [STATE, STATUS]


def test_only_what_has_grown_is_read_again() -> None:
    paper = Paper([{0: 3}], [{0: 1}, {0: 1}, {0: 3}])
    assert drain.await_applied(paper.topics, lambda: None, 9.0, pause_s=0.0) is None
    assert [ends for name, ends in paper.read if name == STATUS] == [{0: 3}]
    assert [ends for name, ends in paper.read if name == STATE] == [{0: 1}, {0: 3}]
    assert paper.forgotten == [STATE]


def test_a_twin_that_takes_nothing_more_is_waited_for_so_long() -> None:
    looks: list[None] = []
    paper = Paper([{0: 3}], [{0: 2}])
    late = drain.await_applied(paper.topics, lambda: looks.append(None), 0.05, pause_s=0.01)
    assert late == "the twin has taken 2 of 3 good records after 0.05 s"
    assert looks
    assert len(paper.read) == 2


def test_a_twin_that_has_died_ends_the_wait() -> None:
    def dead() -> None:
        raise RuntimeError("query twin: dead")

    with pytest.raises(RuntimeError, match="query twin: dead"):
        drain.await_applied(Paper([{0: 3}], [{0: 2}]).topics, dead, 9.0)


def test_a_topic_that_cannot_be_read_ends_it_too_and_is_tried_again() -> None:
    paper = Paper([{0: 3}], [{}, {0: 3}])
    with pytest.raises(OSError, match="Kafka is away"):
        drain.await_applied(paper.topics, lambda: None, 9.0)
    assert paper.topics.taken_and_due() == (3, 3)
