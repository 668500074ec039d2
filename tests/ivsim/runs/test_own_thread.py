"""Calls beside an event loop: in a thread of their own, always the same one."""

from __future__ import annotations

import threading

from ivsim.runs.own_thread import OwnThread, loop_is_running


def where() -> tuple[threading.Thread, bool]:
    return threading.current_thread(), loop_is_running()


def test_without_an_event_loop_a_call_is_a_call() -> None:
    thread = OwnThread()
    assert thread.call(where) == (threading.current_thread(), False)
    thread.close()


async def test_beside_an_event_loop_all_calls_are_in_one_thread_without_it() -> None:
    thread = OwnThread()
    found = [thread.call(where) for _ in range(3)]
    assert len(set(found)) == 1
    assert found[0][0] is not threading.current_thread()
    assert not found[0][1]
    thread.close()
    thread.close()
    assert not found[0][0].is_alive()
