"""A broker of one's own as a target: what its URL may say, who agrees to its load, and who logs in as whom."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.commands.common_options import agreed
from ivsim.option_rules import run_options
from ivsim.runs.preflight import preflight
from ivsim.runs.processes import client_prefix
from ivsim.runs.target_credentials import left_on_target, target_credentials
from ivsim.target import SCHEMES, Target, check_answers, check_consent, parse
from ivsim.testbed.process import hold_port
from schemas.errors import Refusal

RUN = "20260101-120000-mqtt-qos1-abc123"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("mqtt://127.0.0.1", Target("mqtt", "127.0.0.1", 1883)),
        ("mqtts://Broker.example:8884/", Target("mqtts", "broker.example", 8884)),
        ("amqp://[::1]", Target("amqp", "::1", 5672)),
        ("amqps://b", Target("amqps", "b", 5671)),
        ("coap://b", Target("coap", "b", 5683)),
        ("coaps://b", Target("coaps", "b", 5684)),
    ],
)
def test_a_url_names_protocol_security_and_address(url: str, target: Target) -> None:
    assert parse(url) == target
    assert parse(str(target)) == target
    assert (target.protocol, target.security != "plain") == (url[:4], url[4] == "s")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://a", "expected SCHEME://HOST"),
        ("127.0.0.1:1883", "expected SCHEME://HOST"),
        ("mqtt://", "expected SCHEME://HOST"),
        ("mqtt://a:99999", "Port out of range"),
        ("mqtt://a:x", "Port could not be cast"),
        ("mqtt://a:0", "port 0 is none"),
        ("mqtt://me:secret@a", "^no user and no password in the URL"),
        ("mqtt://me:secret@a:99999", "^no user and no password in the URL"),
        ("mqtt://me:secret[@a", "^no user and no password in the URL"),
        ("http://me:secret@a/b", "^no user and no password in the URL"),
        ("amqp://a/vhost", "nothing may stand behind host and port"),
        ("mqtt://a?x=1", "nothing may stand behind host and port"),
        ("mqtt://[::1", "Invalid IPv6"),
    ],
)
def test_what_is_no_target_says_what_is_wrong(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        parse(url)
    assert "secret" not in str(refused.value)


@given(st.text())
def test_no_text_breaks_the_parser(url: str) -> None:
    try:
        target = parse(url)
    except ValueError:
        return
    assert target.scheme in SCHEMES
    assert 0 < target.port < 65_536


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 1883)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_load_for_another_machine_needs_its_name_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("mqtt", "broker.example", 1883)
    resolving(monkeypatch, "127.0.0.1", "::1")
    check_consent(target, None, "5 messages/s of 5 vehicles")
    for addresses in (["203.0.113.5"], ["127.0.0.1", "203.0.113.5"]):
        resolving(monkeypatch, *addresses)
        check_consent(target, "broker.example", "5 messages/s of 5 vehicles")
        for consent in (None, "yes", "other.example"):
            with pytest.raises(
                Refusal, match=r"5 messages/s of 5 vehicles would go to broker\.example"
            ) as refused:
                check_consent(target, consent, "5 messages/s of 5 vehicles")
            assert str(refused.value).endswith("add --target-consent broker.example")


@pytest.mark.parametrize(("answer", "consent"), [(True, "broker.example"), (False, None)])
def test_on_a_terminal_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, answer: bool, consent: str | None
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    options = run_options(vehicles=5, interval_s=1.0, target="mqtt://broker.example")
    resolving(monkeypatch, "127.0.0.1")
    assert agreed(options) == options
    assert asked == []
    resolving(monkeypatch, "203.0.113.5")
    assert agreed(options).target_consent == consent
    assert len(asked) == 1
    assert asked[0].startswith("5 messages/s of 5 vehicles would go to broker.example")
    given = options.model_copy(update={"target_consent": "broker.example"})
    assert agreed(given) == given
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert agreed(options) == options
    assert len(asked) == 1


def test_a_target_that_does_not_answer_is_refused_before_anything_starts() -> None:
    with hold_port() as server:
        port = server.getsockname()[1]
        with pytest.raises(
            Refusal, match=rf"^--target mqtt://127.0.0.1:{port}: no answer: Connection refused$"
        ):
            preflight(run_options(target=f"mqtt://127.0.0.1:{port}"))
        server.listen()
        check_answers(Target("mqtt", "127.0.0.1", port), None)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"target": "amqp://127.0.0.1"},
            "--target amqp://127.0.0.1: --protocol mqtt needs one of mqtt://, mqtts://",
        ),
        (
            {"target": "mqtt://a", "protocol": "coap", "mode": "con"},
            "--target mqtt://a: --protocol coap needs one of coap://, coaps://",
        ),
        (
            {"target": "coap://a", "protocol": "coap", "mode": "con"},
            "--target coap://a: needs --topology peer: it stands in the gateway's place",
        ),
        (
            {"target": "coap://a", "protocol": "coap", "mode": "con", "topology": "echo"},
            "--target coap://a: needs --topology peer",
        ),
        (
            {"target": "coaps://a", "protocol": "coap", "mode": "con", "topology": "peer"},
            "--target coaps://a: needs --target-keys, a key for each vehicle",
        ),
        ({"topology": "peer"}, "--topology peer: needs --target"),
        (
            {"target": "mqtt://a", "topology": "peer", "mode": "qos0"},
            "--topology peer: nothing is seen with mqtt qos0, which nobody acknowledges",
        ),
        (
            {"target": "mqtt://a", "target_keys": "k.json"},
            "--target-keys k.json: has no effect with --target mqtt://a",
        ),
        ({"target": "mqtt://a", "security": "tls"}, "--security tls: --target says it"),
        (
            {"target": "mqtt://a", "mix": "mqtt qos1=50,amqp manual=50"},
            "not with --target, which is one broker",
        ),
        ({"target": "mqtt://a", "target_ca": "x"}, "--target-ca x: has no effect with --target mqtt://a"),
        ({"target_consent": "a"}, "--target-consent a: needs --target"),
        ({"target": "a"}, "--target 'a': expected SCHEME://HOST"),
    ],
)
def test_options_that_do_not_go_together_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**fields)
    assert says in str(refused.value)


def accounts_file(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_client_has_its_own_account_or_everybodys(tmp_path: Path) -> None:
    fleet = {"username": "fleet", "password": "p"}
    own = {"username": "one", "password": "q"}
    path = accounts_file(tmp_path / "accounts.json", {"*": fleet, "YV2RT40A8KB000001": own})
    options = run_options(vehicles=2, target="mqtt://127.0.0.1", target_accounts=path)
    found = target_credentials(options, parse("mqtt://127.0.0.1"))
    assert found.usernames == {"YV2RT40A8KB000001": "one", "YV2RT40A8KB000002": "fleet", "gateway": "fleet"}
    assert found.passwords == {"YV2RT40A8KB000001": "q", "YV2RT40A8KB000002": "p", "gateway": "p"}
    assert (found.authority, found.tls()) == (None, None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "Expecting"),
        ([], "expected an object"),
        ({}, "expected an object"),
        ({"*": {"username": "a"}}, r"\*: expected username and password"),
        ({"*": {"username": "a", "password": 1}}, r"\*: expected username and password"),
        ({"*": "a"}, r"\*: expected username and password"),
        ({"gateway": {"username": "a", "password": "secret"}}, "none for YV2RT40A8KB000001"),
    ],
)
def test_accounts_that_are_none_are_refused_by_file_and_name(tmp_path: Path, content: Any, says: str) -> None:
    path = accounts_file(tmp_path / "accounts.json", content)
    options = run_options(vehicles=2, target="mqtt://127.0.0.1", target_accounts=path)
    with pytest.raises(Refusal, match=rf"^--target-accounts {path}: .*{says}") as refused:
        target_credentials(options, parse("mqtt://127.0.0.1"))
    assert "secret" not in str(refused.value)


def test_tls_takes_the_targets_name_the_authority_and_each_clients_certificate(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    asked = {"vehicles": 1, "target": "mqtts://broker.example", "target_ca": str(authority)}
    target = parse("mqtts://broker.example")
    with pytest.raises(Refusal, match=rf"^--target-ca {authority}: no such file$"):
        target_credentials(run_options(**asked), target)
    authority.write_text("")
    tls = target_credentials(run_options(**asked), target).tls("gateway")
    assert tls is not None
    assert (tls.ca_file, tls.server_name, tls.certificate_file) == (str(authority), "broker.example", None)
    asked["target_certificates"] = str(tmp_path)
    (tmp_path / "YV2RT40A8KB000001.pem").write_text("")
    with pytest.raises(Refusal, match=r"^--target-certificates .*: gateway.pem is missing$"):
        target_credentials(run_options(**asked), target)
    (tmp_path / "gateway.pem").write_text("")
    tls = target_credentials(run_options(**asked), target).tls("gateway")
    assert tls is not None
    assert tls.certificate_file == str(tmp_path / "gateway.pem")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["ivsim", "gateway-0"]),
        ({"topology": "echo"}, []),
        ({"gateways": 2}, ["ivsim", "gateway-0", "gateway-1"]),
        ({"mode": "qos1-v311", "topology": "echo"}, ["YV2RT40A8KB000001", "YV2RT40A8KB000001-echo"]),
        ({"protocol": "amqp", "mode": "manual", "target": "amqp://127.0.0.1"}, ["ivsim", "gateway-0"]),
    ],
)
def test_what_may_stay_on_a_target_is_the_runs_own_by_its_name(
    fields: dict[str, Any], names: list[str]
) -> None:
    options = run_options(**({"vehicles": 1, "target": "mqtt://127.0.0.1"} | fields))
    target = parse(str(options.target))
    found = [
        client.name for client in left_on_target(options, target, RUN, target_credentials(options, target))
    ]
    assert found == [f"ivsim-abc123-{name}" for name in names]
    assert client_prefix(run_options(), RUN) == ""
