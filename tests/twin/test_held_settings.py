"""Settings of Spark for one purpose go with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twin.session import held


class Conf(dict[str, str]):
    """Spark's, as far as it is used."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def test_within_the_block_alone() -> None:
    session: Any = SimpleNamespace(conf=Conf(a="1"))
    with held(session, {"a": "2", "b": "3"}):
        assert session.conf == {"a": "2", "b": "3"}
    assert session.conf == {"a": "1"}


def test_also_where_the_block_fails() -> None:
    session: Any = SimpleNamespace(conf=Conf(a="1"))
    with pytest.raises(ZeroDivisionError), held(session, {"a": "2", "b": "3"}):
        raise ZeroDivisionError
    assert session.conf == {"a": "1"}
