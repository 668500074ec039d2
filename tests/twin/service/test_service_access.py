"""Who may ask: loopback without a token by loopback names alone; with a token, only who knows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.config import checked, read_config
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from twin.service.config import ServiceConfig, is_loopback, token_for

TOKEN = "correct-horse-battery"
PATHS = (
    "/api/vehicles",
    "/api/fleet",
    "/api/2/things",
    "/api/events",
    "/metrics",
    "/openapi.json",
    "/nothing",
)
MakeStand = Callable[..., Any]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_no_service_for_others_without_a_token(
    host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("IVSIM_TWIN_TOKEN", raising=False)
    with pytest.raises(Refusal, match="token"):
        token_for(ServiceConfig(bootstrap="127.0.0.1:1", host=host))
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert token_for(ServiceConfig(bootstrap="127.0.0.1:1", host=host, token_file=str(file))) == TOKEN
    monkeypatch.setenv("IVSIM_TWIN_TOKEN", TOKEN)
    assert token_for(ServiceConfig(bootstrap="127.0.0.1:1", host=host)) == TOKEN


@pytest.mark.parametrize("text", ["short", "", "has\x07bell-and-more-characters", "é" * 20])
def test_a_weak_or_unusable_token_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(Refusal):
        token_for(ServiceConfig(bootstrap="127.0.0.1:1", token_file=str(file)))
    with pytest.raises(Refusal, match="readable"):
        token_for(ServiceConfig(bootstrap="127.0.0.1:1", token_file=str(tmp_path / "none")))


def test_loopback_is_known() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert not any(is_loopback(h) for h in ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.org", ""))


async def test_without_a_token_only_loopback_names_are_answered(stand: MakeStand) -> None:
    made = stand(1)
    for host, status in {"127.0.0.1": 200, "localhost": 200, "[::1]": 200, "evil.example": 421}.items():
        async with made.client(host=host) as client:
            assert (await client.get("/api/vehicles")).status_code == status


async def test_with_a_token_nothing_of_the_fleet_is_told_without_it(stand: MakeStand) -> None:
    made = stand(1)
    made.take_all()
    async with made.client(TOKEN, "fleet.example") as client:
        for path in PATHS:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/api/vehicles", params={"token": TOKEN})).status_code == 401
        for path in ("/", "/page/main.js", "/health"):
            assert (await client.get(path)).status_code == 200
        made.fleet.take([made.record()._replace(headers=None)])
        assert vehicle_id(1) not in (await client.get("/health")).text
        assert (await client.get("/api/rejected")).status_code == 401
        found = await client.get("/api/vehicles", headers={"authorization": f"Bearer {TOKEN}"})
        assert found.json()["total"] == 1


async def test_the_page_trades_the_token_for_a_cookie_that_is_not_the_token(stand: MakeStand) -> None:
    made = stand(1)
    async with made.client(TOKEN) as client:
        opened = await client.get("/api/session", headers={"authorization": f"Bearer {TOKEN}"})
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert (await client.get("/api/vehicles")).status_code == 200
        # A cookie alone makes no new session, and one of another process is worth nothing.
        assert (await client.get("/api/session")).status_code == 401
    async with made.client(TOKEN) as other:
        name, _, value = cookie.partition(";")[0].partition("=")
        other.cookies.set(name, value)
        assert (await other.get("/api/vehicles")).status_code == 401


@pytest.mark.parametrize(
    "foreign",
    ['test={"key": 1}', "name=J\xfcrgen", "a[b]=1", "", ";;", "=", "ivsim_session_8080=stale", "x" * 8_000],
)
async def test_cookies_of_other_applications_are_not_judged(stand: MakeStand, foreign: str) -> None:
    """RFC 6265, 5.4."""
    made = stand(1)
    async with made.client(TOKEN) as client:
        opened = await client.get("/api/session", headers={"authorization": f"Bearer {TOKEN}"})
        ours = opened.headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        for said in (f"{foreign}; {ours}", f"{ours}; {foreign}", f"{foreign};{ours}"):
            answer = await client.get("/api/vehicles", headers=[(b"cookie", said.encode("latin-1"))])
            assert answer.status_code == 200, said
        lines = [foreign.encode("latin-1"), ours.encode()]
        for ordered in (lines, lines[::-1]):  # RFC 9113, 8.2.3: a proxy may cut one line into several
            answer = await client.get("/api/vehicles", headers=[(b"cookie", line) for line in ordered])
            assert answer.status_code == 200, ordered
        answer = await client.get("/api/vehicles", headers=[(b"cookie", foreign.encode("latin-1"))])
        assert answer.status_code == 401


async def test_of_two_host_names_or_tokens_none_is_believed(stand: MakeStand) -> None:
    """RFC 9112, 3.2."""
    hosts = [(b"host", b"evil.example"), (b"host", b"127.0.0.1")]
    tokens = [(b"authorization", b"Bearer wrong"), (b"authorization", f"Bearer {TOKEN}".encode())]
    made = stand(1)
    async with made.client() as client, made.client(TOKEN) as guarded:
        for way in (1, -1):
            assert (await client.get("/api/vehicles", headers=hosts[::way])).status_code == 421
            assert (await guarded.get("/api/vehicles", headers=tokens[::way])).status_code == 401


async def test_the_page_may_load_from_itself_alone(stand: MakeStand) -> None:
    made = stand(1)
    async with made.client() as client:
        page = await client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        names = ("main.js", "store.js", "map.js", "grid.js", "table.js", "chart.js", "detail.js", "theme.js",
                             "format.js", "style.css", "icon.svg")  # fmt: skip
        texts = [page.text] + [(await client.get(f"/page/{name}")).text for name in names]
        for name in ("__init__.py", "..%2fconfig.py", "none.js"):
            assert (await client.get(f"/page/{name}")).status_code == 404
    for text in texts:
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
        assert "innerHTML" not in text


@pytest.mark.parametrize(
    "words", [{}, {"bootstrap": "nowhere"}, {"bootstrap": "a:1", "port": 70_000}, {"bootstrap": "a:1", "colour": 1},
              {"bootstrap": "a:1", "stale_after_s": 0}],
)  # fmt: skip
def test_a_bad_configuration_is_refused_by_key(words: dict[str, Any], tmp_path: Path) -> None:
    key = next((k for k in ("colour", "port", "stale_after_s") if k in words), "bootstrap")
    with pytest.raises(Refusal, match=key):
        checked(words, ServiceConfig, "config.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(Refusal, match=r"broken\.json"):
        read_config(broken, ServiceConfig)
