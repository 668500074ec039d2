"""A testbed for other processes, without a testbed: what is refused before anything is started."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ivsim.option_rules import run_options
from ivsim.runs.served import ask, listening, socket_path
from schemas.errors import Refusal


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))


def test_no_testbed_is_a_refusal_that_names_the_command() -> None:
    with pytest.raises(Refusal, match=r"no testbed is up .*: `ivsim up`"):
        ask(run_options(), None, quiet=True)


def test_one_testbed_at_a_time_and_its_socket_goes_with_it() -> None:
    with listening():
        mode = socket_path().stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        with pytest.raises(Refusal, match="a testbed is up already"), listening():
            pass
    assert not socket_path().exists()


def test_the_socket_of_a_killed_testbed_is_taken_over() -> None:
    with listening():
        os.link(socket_path(), socket_path().with_suffix(".kept"))
    socket_path().with_suffix(".kept").rename(socket_path())  # bound once, and nobody listens any more
    with pytest.raises(Refusal, match="no testbed is up"):
        ask(run_options(), None, quiet=True)
    with listening():
        pass
