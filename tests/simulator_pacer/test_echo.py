"""The echo's receiver counts each message once, whatever the network repeats."""

from __future__ import annotations

from typing import Any

from schemas.formats.base import Peek
from simulator.echo import Echo
from simulator.emission_log import Kind
from simulator.lane import Totals


class Log:
    def __init__(self) -> None:
        self.notes: list[tuple[int, int, int]] = []

    def note(self, kind: int, _vehicle: int, _at_ns: int, *, epoch: int, sequence: int, size: int) -> None:
        assert kind == Kind.RECEIVED
        self.notes.append((epoch, sequence, size))


class Numbers:
    """Payloads `epoch sequence`; `modulus` makes the sequence wrap."""

    def __init__(self, modulus: int | None = None) -> None:
        self.sequence_modulus = modulus

    def peek(self, payload: bytes) -> Peek:
        epoch, sequence = map(int, payload.split())
        return Peek(sequence, epoch, None, None)


def echo(modulus: int | None = None) -> tuple[Echo, Log, Totals]:
    log, totals = Log(), Totals()
    some: Any = Numbers(modulus)
    return Echo(1, 3, some, log, totals), log, totals  # type: ignore[arg-type]


def test_a_repeated_message_arrives_once() -> None:
    made, log, totals = echo()
    for payload in (b"3 1", b"3 1", b"3 3", b"3 2", b"3 2", b"3 3"):
        made.received(payload, 5, duplicate=False)
    assert totals.received == 3
    assert [sequence for _, sequence, _ in log.notes] == [1, 3, 2]


def test_a_message_of_another_epoch_is_not_this_runs() -> None:
    made, log, totals = echo()
    made.received(b"2 1", 5, duplicate=False)
    assert (totals.received, log.notes) == (0, [])


def test_wrapping_sequences_are_unwrapped_and_counted_once() -> None:
    made, log, totals = echo(100)
    for number in [*range(1, 231), 230, 228]:
        made.received(b"3 %d" % ((number - 1) % 100 + 1), 5, duplicate=False)
    assert totals.received == 230
    assert [sequence for _, sequence, _ in log.notes] == list(range(1, 231))
