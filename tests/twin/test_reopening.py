"""How often queries that have died are opened again, and that nobody opens those of a run that is over."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

from twin import __main__ as program
from twin.config import TwinConfig
from twin.process import REOPENED_WITHIN_S, TwinProcess
from twin.run_queries import QueryDiedError


class Dead:
    """A process whose query has died, and dies again each time that it is opened but for one."""

    def __init__(
        self, inbox: queue.SimpleQueue[Any], lives_at: int, then: list[dict[str, Any] | None]
    ) -> None:
        self._inbox, self._lives_at, self._then = inbox, lives_at, then
        self.calls: list[str] = []
        self._dead = True

    def _call(self, name: str) -> None:
        self.calls.append(name)

    def check(self) -> None:
        self._call("check")
        if self._dead:
            raise QueryDiedError("query twin: gone")
        for command in self._then:
            self._inbox.put(command)
        self._then = []

    def may_open_again(self) -> bool:
        return self.calls.count("again") < 3

    def again(self, error: QueryDiedError) -> dict[str, Any]:
        self._call("again")
        assert str(error).startswith("query twin")
        if self.calls.count("again") != self._lives_at:
            if self.calls.count("again") == 2:
                for command in self._then:
                    self._inbox.put(command)
                self._then = []
            raise QueryDiedError("query twin: gone again")
        self._dead = False
        return {"cause": str(error), "reopened": self.calls.count("again"), "of": 3, "opened_s": 2.0}

    def leave(self) -> None:
        self._call("leave")
        self._dead = False


LEAVE, STOP = {"command": "leave"}, {"command": "stop"}


@pytest.fixture
def served(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[int, list[dict[str, Any] | None]], tuple[list[str], list[str]]]:
    def serve(lives_at: int, then: list[dict[str, Any] | None]) -> tuple[list[str], list[str]]:
        inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        said: list[str] = []
        monkeypatch.setattr(program, "_CHECK_INTERVAL_S", 0.01)
        monkeypatch.setattr(program, "emit", lambda name, **_: said.append(name))
        monkeypatch.setattr(program, "report_error", lambda error: (said.append(str(error)), inbox.put(STOP)))
        process = Dead(inbox, lives_at, then)
        program._serve(process, inbox)  # type: ignore[arg-type]
        return process.calls, said

    return serve


def test_a_query_is_opened_until_it_lives(served: Any) -> None:
    calls, said = served(2, [STOP])
    assert calls == ["check", "again", "again", "check"]
    assert said == ["reopened"]


def test_a_query_that_stays_dead_is_told_once(served: Any) -> None:
    calls, said = served(0, [])
    assert calls == ["check", "again", "again", "again"]
    assert said == ["query twin: gone again"]


def test_queries_of_a_run_that_was_left_are_not_opened_again(served: Any) -> None:
    calls, said = served(0, [LEAVE, STOP])
    assert calls == ["check", "again", "again", "leave"]
    assert said == ["left"]


def test_reopenings_are_counted_within_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000_000.0
    monkeypatch.setattr("twin.process.time.monotonic", lambda: now_s)
    process = TwinProcess(TwinConfig(run_dir=".", topology="echo", reopenings=2))
    process._reopened += [now_s - REOPENED_WITHIN_S - 1, now_s - REOPENED_WITHIN_S + 1]
    assert process.may_open_again()
    process._reopened.append(now_s)
    assert not process.may_open_again()
    assert not TwinProcess(TwinConfig(run_dir=".", topology="echo")).may_open_again()
