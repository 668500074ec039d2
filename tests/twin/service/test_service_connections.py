"""Strangers at the service's port: connections that ask nothing, too many of them, and a log that nobody reads."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from twin.service import connection
from twin.service.connection import MAX_CONNECTIONS

ROOT = Path(__file__).parents[3]
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SOON_S = 10.0


@contextlib.contextmanager
def stranger(url: str, said: bytes = b"") -> Iterator[socket.socket]:
    """Yield a connection to the service by which this was said."""
    with socket.create_connection((httpx.URL(url).host, httpx.URL(url).port or 80), SOON_S) as made:
        made.sendall(said)
        yield made


def answered(connection: socket.socket) -> bool:
    """Ask for the service's health, and say whether it is told."""
    said = b""
    with contextlib.suppress(ConnectionError):
        connection.sendall(GET)
        while not said.endswith(b"}") and (more := connection.recv(65_536)):
            said += more
    return b'"status":"UP"' in said


def closed(connection: socket.socket) -> bool:
    """Say whether the service closes a connection soon, behind whatever it has answered."""
    with contextlib.suppress(ConnectionResetError):
        try:
            while connection.recv(65_536):
                pass
        except TimeoutError:
            return False
    return True


@pytest.fixture
def service(stand: Callable[..., Any], served: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(connection, "HEAD_S", 0.5)
    url: str = served(stand(1)).url
    return url


@pytest.fixture
def patient(service: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A service that no pause of a busy machine makes impatient."""
    monkeypatch.setattr(connection, "HEAD_S", 3.0)
    return service


@pytest.mark.parametrize(
    ("first", "then"),
    [(b"", b""), (b"", b"G"), (GET[:-2], b""), (GET, b"G"), (GET, GET[:-2]), (GET[:-2] + b"Content-Length: 9\r\n\r\n", b"x")],
)  # fmt: skip
def test_who_sends_no_whole_head_is_left(service: str, first: bytes, then: bytes) -> None:
    with stranger(service, first) as one:
        time.sleep(0.2)  # it has its answer, if there is one
        one.sendall(then)
        assert closed(one)


def test_who_drips_is_left_as_well(service: str) -> None:
    began_s = time.monotonic()
    with stranger(service) as one, contextlib.suppress(ConnectionError):
        for byte in GET[:-2].ljust(10_000, b"x"):
            one.sendall(bytes([byte]))
            time.sleep(0.05)
    assert time.monotonic() - began_s < SOON_S


def test_a_connection_that_asks_again_and_again_is_kept(patient: str) -> None:
    """The time for a head does not count while an answer is made, nor between two requests."""
    with stranger(patient) as one:
        for pause_s in (1.0, 1.0, 1.0, 4.0, 0.0):
            assert answered(one)
            time.sleep(pause_s)


def test_a_stream_is_kept(patient: str) -> None:
    with httpx.stream("GET", f"{patient}api/events", timeout=SOON_S) as answer:
        heard, began_s = answer.iter_bytes(), time.monotonic()
        while time.monotonic() - began_s < 5.0:
            assert next(heard)


@pytest.mark.parametrize("idle", [MAX_CONNECTIONS - 1, MAX_CONNECTIONS, MAX_CONNECTIONS + 1])
def test_connections_have_a_bound_and_idle_ones_are_left(
    stand: Callable[..., Any], served: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, idle: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # both ends of each connection are this process's
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    monkeypatch.setattr(connection, "HEAD_S", 8.0)
    monkeypatch.setattr(sys.modules[__name__], "SOON_S", 30.0)
    url = served(stand(1)).url
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(stranger(url)) for _ in range(idle)]
        with stranger(url) as one:
            assert answered(one) == (idle < MAX_CONNECTIONS)
        if idle > MAX_CONNECTIONS:
            assert closed(strangers[-1])
        assert closed(strangers[0]), "behind HEAD_S"
        time.sleep(1.0)
        assert httpx.get(f"{url}health").status_code == 200


UNREAD = """
import asyncio, socket, sys
import uvicorn
from schemas.outlet import log_to_stderr
from twin.service.server import settings

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})

log_to_stderr("%(message)s")
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
asyncio.run(uvicorn.Server(settings(app)).serve([listening]))
"""


def test_a_log_that_nobody_reads_makes_it_not_deaf() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", UNREAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout is not None
        url = f"http://127.0.0.1:{int(child.stdout.readline())}/"
        for _ in range(2_500):
            with stranger(url, b"\x00nonsense\r\n\r\n") as one:
                assert one.recv(15) == b"HTTP/1.1 400 Ba"
        assert httpx.get(url).text == "ok"
    finally:
        child.kill()
        _, said = child.communicate()
    assert said.startswith(b"Invalid HTTP request received.\n")
    assert len(said) > 60_000
