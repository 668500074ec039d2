"""The Spark that tests of one process share: one at a time, since an idle one keeps a tenth of a core busy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

Opened = TypeVar("Opened")
# Which of them a test asks for, by the fixture's name, in the order in which they are opened: each once in a process.
# Tests that start one of their own come behind the first, and have the machine to themselves.
SPARK, OWN, TESTBED = "spark", "", "testbed"
KINDS = (SPARK, OWN, TESTBED)


def kind_of(fixture_names: list[str]) -> str:
    """Return which Spark a test marked `spark` uses; runs of other processes share the testbed."""
    if "runs" in fixture_names:
        return TESTBED
    return next((kind for kind in (TESTBED, SPARK) if kind in fixture_names), OWN)


class OneSpark:
    """Holds the one that is open; whoever asks for another closes it first."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._kind = OWN
        self._opened: Any = None

    def get(self, kind: str, make: Callable[[], AbstractContextManager[Opened]]) -> Opened:
        """Return what is open of this kind, or open it."""
        if self._kind != kind:
            self.close()
            self._opened = self._stack.enter_context(make())
            self._kind = kind
        return self._opened

    def close(self) -> None:
        """Close what is open, if anything is."""
        self._kind, self._opened = OWN, None
        stack, self._stack = self._stack, ExitStack()
        stack.close()
