"""The fold in Java by itself: its own JUnit tests, and any stream in any pieces against the Python reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.twin import java_fold
from tests.twin.reference import MAX_EPOCHS, WINDOW, fold, payload_bytes

pytestmark = pytest.mark.spark

FIGURES = (
    "epoch", "sequence", "messages", "duplicates", "gaps", "given_up", "first_received_at_ns", "last_received_at_ns",
)  # fmt: skip
NEAR = st.integers(1, 12)
AT_THE_LIMIT = st.builds(lambda n, d: max(1, n * WINDOW + d), st.integers(0, 3), st.integers(-2, 2))
MESSAGE = st.tuples(
    st.integers(0, 2) | st.integers(0, MAX_EPOCHS + 3),
    NEAR | NEAR.map(lambda n: WINDOW // 2 + n) | AT_THE_LIMIT,
    st.integers(1, 99),
    st.integers(0, 300),
)
Rows = list[tuple[int, int, int, int]]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return java_fold.compile_tests(tmp_path_factory.mktemp("fold"))


@pytest.fixture(scope="module")
def runner(class_path: str) -> Iterator[java_fold.FoldRunner]:
    with java_fold.fold_runner(class_path) as runner:
        yield runner


def test_junit(class_path: str) -> None:
    done = java_fold.run_junit(class_path)
    assert done.returncode == 0, done.stdout + done.stderr


@st.composite
def streams(draw: st.DrawFn) -> tuple[Rows, list[str]]:
    """Return messages, and the words that fold them in pieces within pieces."""
    rows = draw(st.lists(MESSAGE, min_size=1, max_size=40))
    if draw(st.booleans()):
        rows.sort(key=lambda row: row[1])
    words: list[str] = []
    depth = 0
    for row in rows:
        if draw(st.integers(0, 3)) == 0:
            words.append("(")
            depth += 1
        words.append("/".join(map(str, row)))
        while depth and draw(st.booleans()):
            words.append(draw(st.sampled_from(")]")))
            depth -= 1
    return rows, words + [")"] * depth


# Ten times the others: a JVM that is up folds a stream in milliseconds.
@settings(max_examples=10 * settings.default.max_examples)
@given(stream=streams())
def test_a_stream_in_any_pieces_gives_what_the_reference_gives(
    runner: java_fold.FoldRunner, stream: tuple[Rows, list[str]]
) -> None:
    rows, words = stream
    expected = fold((epoch, sequence, at) for epoch, sequence, at, _ in rows)
    sized = [(epoch, sequence, size) for epoch, sequence, _, size in rows]
    wanted = [str(expected[name]) for name in FIGURES] + [str(payload_bytes(sized))]
    event("given up" if expected["given_up"] else "counted")
    *whole, state = runner.fold(" ".join("/".join(map(str, row)) for row in rows))
    *pieces, merged = runner.fold(" ".join(words))
    assert whole == wanted
    assert pieces == wanted
    assert merged == state


def test_the_state_of_a_lossy_vehicle_is_bounded(runner: java_fold.FoldRunner) -> None:
    """A quarter of a long stream is lost: 4,096 ranges used to take 67 kB."""
    lost = itertools.cycle([False, True, False, False])
    words = [f"1/{sequence}/1/0" for sequence, gone in zip(range(1, 20_002), lost, strict=False) if not gone]
    *figures, state = runner.fold(" ".join(words))
    assert int(figures[4]) == 5_000
    assert len(state) // 2 < 1_300
