"""A node's home has what the node needs: its applications' own words say what that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.testbed.rabbitmq import SERVER
from ivsim.testbed.rabbitmq_home import make_home

APPLICATIONS = {
    "rabbit-4.9": "[kernel, rabbit_common,\n ra]",
    "rabbit_common-4.9": "[stdlib,jsx]",
    "rabbitmq_prelaunch-4.9": "[rabbit_common]",
    "ra-2.0": "[seshat]",
    "seshat-1.0": "[]",
    "jsx-3.1": "[]",
    "rabbitmq_web-4.9": "[rabbit,cowboy]",
    "cowboy-2.8": "[]",
}


@pytest.fixture
def server(tmp_path: Path) -> Path:
    installed = tmp_path / "installed"
    for name, needs in APPLICATIONS.items():
        folder = installed / "plugins" / name / "ebin"
        folder.mkdir(parents=True)
        plain = name.rpartition("-")[0]
        (folder / f"{plain}.app").write_text(
            f"{{application, '{plain}', [{{modules, []}}, {{applications,{needs}}}]}}."
        )
    (installed / "sbin").mkdir()
    (installed / "escript").mkdir()
    script = installed / "sbin" / "rabbitmq-server"
    script.write_text("#!/bin/sh\n")
    link = tmp_path / "rabbitmq-server"
    link.symlink_to(script)
    return link


def test_it_has_what_a_node_and_its_plugins_need(tmp_path: Path, server: Path) -> None:
    plain = {"rabbit-4.9", "rabbit_common-4.9", "rabbitmq_prelaunch-4.9", "ra-2.0", "seshat-1.0", "jsx-3.1"}
    scripts = make_home(tmp_path / "plain", server, [])
    assert scripts == tmp_path / "plain" / "sbin"
    assert (scripts / "rabbitmq-server").read_text() == "#!/bin/sh\n"
    assert {path.name for path in (tmp_path / "plain" / "plugins").iterdir()} == plain
    make_home(tmp_path / "web", server, ["rabbitmq_web"])
    assert {path.name for path in (tmp_path / "web" / "plugins").iterdir()} == plain | {
        "rabbitmq_web-4.9",
        "cowboy-2.8",
    }


def test_where_a_plugin_lies_is_not_guessed(tmp_path: Path, server: Path) -> None:
    assert make_home(tmp_path / "home", server, ["rabbitmq_none"]) is None
    assert not (tmp_path / "home").exists()


@pytest.mark.broker
def test_the_installed_one_is_known(tmp_path: Path) -> None:
    assert make_home(tmp_path / "home", SERVER, ["rabbitmq_auth_mechanism_ssl"]) is not None
    names = {path.name.rpartition("-")[0] for path in (tmp_path / "home" / "plugins").iterdir()}
    assert {"rabbit", "ranch", "rabbitmq_auth_mechanism_ssl"} <= names
    assert "rabbitmq_management" not in names
