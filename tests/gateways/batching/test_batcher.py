"""Batches by count and age: nothing lost, nothing twice, nothing reordered, whatever comes when."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.batching.batcher import Batcher, BatchSetting

SETTINGS = st.builds(BatchSetting, st.integers(1, 6), st.sampled_from([0.0, 1.0, 5.0, 50.0]))
# What happens next: (seconds that pass, partition of an item), a new setting, or the end.
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0.0, 0.0, 0.0005, 0.003, 0.2]), st.integers(0, 2)),
        SETTINGS,
        st.just("close"),
    ),
    max_size=60,
)

Item = tuple[int, int, float]


class Played:
    """A batcher under events, closed at each deadline as its shell does it; keeps what came out."""

    def __init__(self, setting: BatchSetting) -> None:
        self.batcher: Batcher[Item] = Batcher(setting)
        self.now_s = 100.0
        self.given = 0
        self.closed: list[tuple[float, list[Item]]] = []

    def play(self, event: tuple[float, int] | BatchSetting | str) -> None:
        if isinstance(event, BatchSetting):
            self.take(self.batcher.change(event, self.now_s))
        elif isinstance(event, str):
            self.take(self.batcher.close())
        else:
            self.wait(self.now_s + event[0])
            item = (event[1], self.given, self.now_s)
            self.given += 1
            closed = self.batcher.add(event[1], item, self.now_s)
            self.take([] if closed is None else [closed])

    def wait(self, until_s: float) -> None:
        while (deadline_s := self.batcher.deadline_s) is not None and deadline_s <= until_s:
            self.now_s = max(self.now_s, deadline_s)
            due = self.batcher.due(self.now_s)
            assert due, "a deadline that closes nothing would be asked for again without end"
            self.take(due)
        self.now_s = until_s

    def take(self, batches: list[list[Item]]) -> None:
        for batch in batches:
            assert 0 < len(batch) <= self.batcher.setting.messages
            assert len({partition for partition, _, _ in batch}) == 1
            self.closed.append((self.now_s, batch))


@given(SETTINGS, EVENTS)
def test_every_item_comes_out_once_in_its_partitions_order_and_in_time(
    first: BatchSetting, events: list[tuple[float, int] | BatchSetting | str]
) -> None:
    played = Played(first)
    longest_s = max([first.wait_ms, *(e.wait_ms for e in events if isinstance(e, BatchSetting))]) / 1e3
    for event in events:
        played.play(event)
    played.take(played.batcher.close())
    numbers = defaultdict(list)
    for closed_s, batch in played.closed:
        for partition, number, added_s in batch:
            numbers[partition].append(number)
            assert closed_s - added_s <= longest_s + 1e-9
    assert sorted(n for several in numbers.values() for n in several) == list(range(played.given))
    assert all(several == sorted(several) for several in numbers.values())
    assert played.batcher.deadline_s is None


@given(st.integers(2, 9), st.integers(0, 40))
def test_count_alone_closes_full_batches(messages: int, items: int) -> None:
    batcher: Batcher[int] = Batcher(BatchSetting(messages, 1_000.0))
    closed = [batch for n in range(items) if (batch := batcher.add(0, n, 0.0)) is not None]
    assert [len(batch) for batch in closed] == [messages] * (items // messages)
    assert batcher.close() == ([list(range(items - items % messages, items))] if items % messages else [])


def test_age_counts_from_the_oldest() -> None:
    batcher: Batcher[str] = Batcher(BatchSetting(10, 100.0))
    batcher.add(0, "a", 0.0)
    batcher.add(1, "b", 0.05)
    batcher.add(0, "c", 0.09)
    assert batcher.deadline_s == 0.1
    assert batcher.due(0.0999) == []
    assert batcher.due(0.1) == [["a", "c"]]
    assert batcher.deadline_s == pytest.approx(0.15)


def test_an_item_that_finds_its_batch_over_its_age_closes_it() -> None:
    batcher: Batcher[str] = Batcher(BatchSetting(10, 100.0))
    batcher.add(0, "a", 0.0)
    assert batcher.add(0, "b", 0.2) == ["a", "b"]


def test_a_smaller_count_closes_at_once_what_is_over_it_in_pieces() -> None:
    batcher: Batcher[int] = Batcher(BatchSetting(10, 1_000.0))
    for number in range(7):
        batcher.add(0, number, 0.0)
    batcher.add(1, 7, 0.0)
    assert batcher.change(BatchSetting(3, 1_000.0), 0.0) == [[0, 1, 2], [3, 4, 5], [6]]
    assert batcher.due(1.0) == [[7]]


def test_a_shorter_wait_closes_at_once_what_is_older() -> None:
    batcher: Batcher[int] = Batcher(BatchSetting(10, 1_000.0))
    batcher.add(0, 0, 0.0)
    batcher.add(1, 1, 0.5)
    assert batcher.change(BatchSetting(10, 200.0), 0.6) == [[0]]
    assert batcher.deadline_s == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("messages", "wait_ms"), [(0, 1.0), (-1, 1.0), (1, -1.0), (1, float("inf")), (1, float("nan"))]
)
def test_a_setting_that_closes_nothing_is_refused(messages: int, wait_ms: float) -> None:
    with pytest.raises(ValueError, match="batch"):
        BatchSetting(messages, wait_ms)
