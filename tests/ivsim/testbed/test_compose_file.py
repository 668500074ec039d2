"""compose.yaml is checked for syntax only: nobody here starts Docker."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from ivsim.testbed.paths import ROOT, compose_dir

FILE = ROOT / "compose" / "compose.yaml"
SERVICE_KEYS = {"image", "ports", "volumes", "environment", "entrypoint", "command", "healthcheck"}
SERVICES = yaml.safe_load(FILE.read_text())["services"]


def test_it_has_the_three_servers() -> None:
    assert set(SERVICES) == {"kafka", "mosquitto", "rabbitmq"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_known_keys_a_pinned_image_and_stays_on_loopback(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= SERVICE_KEYS
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_uses_the_testbeds_own_configuration(name: str) -> None:
    sources = [volume.split(":")[0] for volume in SERVICES[name]["volumes"]]
    assert sources
    assert all((FILE.parent / source).is_file() for source in sources)
    assert all((FILE.parent / source).resolve().is_relative_to(compose_dir() / name) for source in sources)


def test_docker_compose_reads_it_where_there_is_one() -> None:
    docker = shutil.which("docker")
    if docker is None or quiet(docker, "compose", "version").returncode != 0:
        return  # the plugin is no part of the project; the checks above stand for it
    done = quiet(docker, "compose", "-f", str(FILE), "config", "-q")
    assert done.returncode == 0, done.stderr


def quiet(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False)
