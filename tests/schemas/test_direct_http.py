"""Our own parts are asked directly, and by nobody who would ask the environment's proxy."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator

import pytest

from ivsim.testbed.paths import ROOT
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import SparkMaster
from schemas import direct_http


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"workers": [{"id": "worker-1", "state": "ALIVE"}, {"id": "worker-2", "state": "DEAD"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serves a page on loopback, in an environment whose proxy is not there."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_no_proxy_stands_between(page: int) -> None:
    assert b"worker-1" in direct_http.answer(f"http://127.0.0.1:{page}/", 5.0)


def test_a_spark_master_is_asked_directly(page: int, run_record: RunRecord) -> None:
    master = SparkMaster(run_record)
    try:
        master._page_port = page
        assert set(master.workers() or {}) == {"worker-1"}
    finally:
        master.close()


def test_nobody_else_asks_over_http() -> None:
    """Each other way of Python's or of a library's would go by the proxy unless told otherwise."""
    ways = re.compile(r"urlopen\(|build_opener\(|httpx\.(get|post)\(|\brequests\.(get|post)\(")
    product = [
        path
        for name in ("ivsim", "simulator", "gateways", "twin", "schemas")
        for path in (ROOT / name).rglob("*.py")
    ]
    found = {str(path.relative_to(ROOT)) for path in product if ways.search(path.read_text())}
    assert found == {"schemas/direct_http.py"}
    clients = {str(path.relative_to(ROOT)) for path in product if "httpx.Client(" in path.read_text()}
    assert all("trust_env=False" in (ROOT / name).read_text() for name in clients)
