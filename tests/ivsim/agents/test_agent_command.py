"""`ivsim agent` and `--agent` on the command line: what is refused, in one line, before anything listens or starts."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from fake_agent import TOKEN, FakeAgent

from ivsim import cli
from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.code_version import version_line


def refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line.removeprefix("ivsim: ")


def test_an_agent_without_a_token_or_an_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    said = refused(["agent"], monkeypatch, capsys)
    assert said.startswith(f"an agent needs a token: --token-file FILE, or {TOKEN_VARIABLE}; ")
    missing = str(tmp_path / "none")
    said = refused(["agent", "--token-file", missing], monkeypatch, capsys)
    assert said == f"token file {missing}: not readable"
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    said = refused(["agent"], monkeypatch, capsys)
    assert said == f"{TOKEN_VARIABLE}: a token has at least 16 printable ASCII characters"
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    said = refused(["agent", "--listen", "7070"], monkeypatch, capsys)
    assert said == "--listen '7070': write HOST:PORT, such as 192.0.2.7:7070 or [2001:db8::7]:7070"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(["agent", "--listen", address], monkeypatch, capsys)
        assert said.startswith(f"--listen {address}: ")


def test_a_load_test_asks_its_agents_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The preflight's own word, with everything else that it asks for answered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    # What else the preflight needs on this machine is not asked here.
    monkeypatch.setattr("ivsim.runs.runner.preflight", _agents_alone)
    given = ["--link", "direct", "--target", "mqtt://127.0.0.1:1", "--topology", "echo"]
    with FakeAgent(version="ivsim 0.0.1 (old)") as old:
        asked = ["load", "--stage", "1s:5", "--agent", str(old.address), *given]
        said = refused(asked, monkeypatch, capsys)
        assert said == (
            f"--agent {old.address}: it is ivsim 0.0.1 (old), and this is {version_line()}: both must be the same"
        )
    with FakeAgent(version=version_line(), token="another token, long enough") as strange:
        asked = ["run", "--agent", str(strange.address), *given]
        said = refused(asked, monkeypatch, capsys)
        assert said == f"--agent {strange.address}: it does not know the token"
    said = refused(["load", "--stage", "1s:1", "--agent", "127.0.0.1:1", *given], monkeypatch, capsys)
    assert said == "--vehicles 1: each machine needs one at least: there are 2, this one and 1 of --agent"
    assert list(tmp_path.iterdir()) == []


def _agents_alone(options: object) -> None:
    from ivsim.runs import preflight  # noqa: PLC0415

    preflight.check_agents(options)  # type: ignore[arg-type]
