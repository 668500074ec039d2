"""How long a run stays after its last message was due."""

from __future__ import annotations

from ivsim.runs.runner import SETTLE_NS, drain_end_ns

END, TIMEOUT = 1_000_000_000_000, 30_000_000_000


def test_messages_that_left_in_time_have_their_timeout() -> None:
    assert drain_end_ns(END, TIMEOUT, END - 5, settled=True) == END + TIMEOUT


def test_a_message_that_left_late_has_its_own() -> None:
    assert drain_end_ns(END, TIMEOUT, END + 20, settled=True) == END + 20 + TIMEOUT


def test_while_vehicles_keep_messages_the_run_stays() -> None:
    assert drain_end_ns(END, TIMEOUT, END + 20, settled=False) == END + 2 * TIMEOUT + SETTLE_NS
