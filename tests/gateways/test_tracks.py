from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.tracks import Track


def passes(track: Track, sequence: int) -> bool:
    """What the bridge does: True when the sequence has passed before."""
    if sequence == track.expected:
        track.expected = sequence + 1
        return False
    return track.seen_before(sequence)


@given(st.lists(st.integers(1, 60), max_size=200))
def test_a_sequence_is_a_duplicate_exactly_when_it_has_passed(sequences: list[int]) -> None:
    track = Track(b"v", 1)
    seen: set[int] = set()
    for sequence in sequences:
        assert passes(track, sequence) == (sequence in seen)
        seen.add(sequence)


def test_memory_of_gaps_is_bounded() -> None:
    track = Track(b"v", 1)
    track.seen_before(10**12)
    track.seen_before(2 * 10**12)
    assert len(track.missing) <= 10_000


@given(
    st.integers(1, 100),
    st.lists(st.integers(-40, 40), max_size=100),
)
def test_unwrapping_finds_the_sequence_again(first: int, steps: list[int]) -> None:
    track = Track(b"v", 1)
    sequence = first
    assert track.unwrap(sequence, 100) == sequence
    passes(track, sequence)
    for step in steps:
        sequence = max(1, track.expected - 1 + step)
        wrapped = (sequence - 1) % 100 + 1
        assert track.unwrap(wrapped, 100) == sequence
        passes(track, sequence)


def test_a_new_epoch_begins_anew() -> None:
    track = Track(b"v", 1)
    for sequence in (1, 2, 5):
        passes(track, sequence)
    track.restart(2)
    assert (track.expected, track.missing, track.epoch_header) == (1, set(), ("epoch", b"2"))
