"""The ledger closes whatever happens between producers and consumers."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ivsim.study.engines.pipe.ledger import CONSUMED, FATES, LOST, REFUSED, UNKNOWN, Arrived, Produced, close


def made(records, arrivals, *, producers=1, complete=True, answered=True):
    """Close a ledger of (number, acknowledged, refused) and (number, partition) in their order."""
    number = np.array([one[0] for one in records], np.int64)
    size = number.size
    produced = Produced(
        number,
        number * 1_000,
        number * 1_000 + 1,
        np.array([one[1] for one in records], np.int64),
        np.full(size, 10, np.int64),
        np.array([one[2] for one in records], np.int64),
    )
    count = len(arrivals)
    arrived = Arrived(
        np.array([one[0] for one in arrivals], np.int64),
        np.array([one[1] for one in arrivals], np.int64),
        np.arange(count, dtype=np.int64),
        np.arange(1, count + 1, dtype=np.int64) * 10_000,
    )
    return close(produced, arrived, producers=producers, complete=complete, answered=answered)


ACKNOWLEDGED = [(number, 5, 0) for number in range(1, 6)]


def test_everything_comes_once_and_in_order():
    found = made(ACKNOWLEDGED, [(number, number % 2) for number in range(1, 6)])
    assert found.count(CONSUMED) == 5
    assert found.duplicates == {0: 0, 1: 0}
    assert found.reordered == {0: 0, 1: 0}
    assert found.arrivals == {0: 2, 1: 3}


def test_what_is_in_no_partition_is_lost_once_all_are_read():
    found = made(ACKNOWLEDGED, [(1, 0), (2, 0), (5, 0)])
    assert (found.count(CONSUMED), found.count(LOST), found.count(UNKNOWN)) == (3, 2, 0)


def test_what_was_not_read_to_the_end_is_unknown_and_not_lost():
    found = made(ACKNOWLEDGED, [(1, 0)], complete=False)
    assert (found.count(CONSUMED), found.count(LOST), found.count(UNKNOWN)) == (1, 0, 4)


def test_an_answer_that_was_not_awaited_leaves_its_record_unknown():
    found = made([(1, 5, 0), (2, 0, 0), (3, 5, 0)], [(1, 0)], answered=False)
    assert [FATES[fate] for fate in found.fate] == [CONSUMED, UNKNOWN, LOST]


def test_a_refused_record_that_came_all_the_same_is_consumed():
    found = made([(1, 0, 1), (2, 0, 1)], [(2, 0)])
    assert [FATES[fate] for fate in found.fate] == [REFUSED, CONSUMED]


def test_duplicates_and_order_count_by_partition_and_producer():
    # Two producers: odd and even numbers. 3 before 1 is out of order; 2 after 3 is another producer's.
    found = made(
        [(number, 5, 0) for number in range(1, 5)], [(3, 0), (2, 0), (1, 0), (3, 0), (4, 1)], producers=2
    )
    assert found.reordered == {0: 1, 1: 0}
    assert found.duplicates == {0: 1, 1: 0}
    assert found.received_at_ns.tolist() == [30_000, 20_000, 10_000, 50_000]


def test_a_number_that_nobody_produced_is_foreign():
    found = made(ACKNOWLEDGED[:2], [(1, 0), (9, 0), (2, 0)])
    assert found.foreign == 1
    assert found.count(CONSUMED) == 2


def test_nothing_produced_is_nothing():
    found = made([], [(1, 0)])
    assert found.foreign == 1
    assert sum(found.count(fate) for fate in FATES) == 0


numbers = st.integers(1, 30)
records = st.dictionaries(numbers, st.tuples(st.sampled_from([0, 7]), st.sampled_from([0, 1])), max_size=30)
arrivals = st.lists(st.tuples(st.integers(1, 35), st.integers(0, 3)), max_size=60)


@given(records, arrivals, st.integers(1, 3), st.booleans(), st.booleans())
def test_every_record_has_one_fate_and_every_arrival_one_place(of, came, producers, complete, answered):
    rows = [(number, *of[number]) for number in sorted(of)]
    found = made(rows, came, producers=producers, complete=complete, answered=answered)
    assert sum(found.count(fate) for fate in FATES) == len(rows)
    counts = Counter(number for number, _ in came)
    fates = {number: FATES[fate] for (number, *_), fate in zip(rows, found.fate, strict=True)}
    assert {number for number, fate in fates.items() if fate == CONSUMED} == set(of) & set(counts)
    assert sum(found.duplicates.values()) == sum(counts[number] - 1 for number in of if counts[number])
    assert found.foreign == sum(count for number, count in counts.items() if number not in of)
    assert sum(found.arrivals.values()) + found.foreign == len(came)
    assert not complete or not answered or found.count(UNKNOWN) == 0
    assert complete or found.count(LOST) == 0
    # In each partition: a first arrival is out of order when its producer's greatest so far is greater.
    for partition, reordered in found.reordered.items():
        seen, greatest, count = set(), {}, 0
        for number, where in came:
            if number in of and number not in seen:
                seen.add(number)
                producer = (number - 1) % producers
                if where == partition:
                    count += number < greatest.get(producer, 0)
                    greatest[producer] = max(number, greatest.get(producer, 0))
        assert reordered == count
