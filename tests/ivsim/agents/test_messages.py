"""What coordinator and agent say to each other: it comes as it went, and nothing else is taken."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.agents.address import Address, address_of
from ivsim.agents.login import new_nonce, proof, proves
from ivsim.agents.messages import (
    Bye,
    Clock,
    Command,
    Ended,
    Event,
    Hello,
    Log,
    Login,
    Message,
    ProtocolError,
    Refused,
    StartSender,
    Welcome,
    line_of,
    message_of,
)

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
INDEX = st.integers(0, 63)
NS = st.integers(0, 2**63 - 1)
WORDS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text())
MESSAGES = st.one_of(
    st.builds(Hello, protocol=st.integers(), version=st.text(), nonce=HEX),
    st.builds(Login, protocol=st.integers(), version=st.text(), nonce=HEX, proof=HEX),
    st.builds(Welcome, proof=HEX, name=st.text(), cores=NS, open_files=NS),
    st.builds(Refused, reason=st.text()),
    st.builds(StartSender, sender=INDEX, config=WORDS),
    st.builds(Command, sender=INDEX, command=WORDS),
    st.builds(Event, sender=INDEX, event=WORDS),
    st.builds(Log.of, INDEX, st.binary()),
    st.builds(Ended, sender=INDEX, exit_code=st.integers(-64, 255), words=st.text()),
    st.builds(Clock, sent_at_ns=NS, received_at_ns=NS | st.none(), answered_at_ns=NS | st.none()),
    st.just(Bye()),
)


@given(MESSAGES)
def test_a_message_comes_as_it_went_in_one_line(message: Message) -> None:
    line = line_of(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert message_of(line) == message


@given(st.binary(max_size=200))
def test_records_come_as_they_went(records: bytes) -> None:
    assert Log.of(3, records).content() == records


@given(st.binary(max_size=300) | MESSAGES.map(line_of).map(lambda line: line[: len(line) // 2]))
def test_what_is_no_message_is_refused_as_one(line: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        message_of(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"type":"bye","more":1}',
        b'{"type":"goodbye"}',
        b'{"type":"command","sender":64,"command":{}}',
        b'{"type":"clock","sent_at_ns":-1}',
        b'{"type":"login","protocol":1,"version":"","nonce":"00","proof":"00"}',
    ],
)
def test_a_line_that_is_almost_one_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        message_of(line)


def test_records_that_are_no_base64_are_refused() -> None:
    with pytest.raises(ProtocolError, match="log: "):
        Log(sender=0, records="not base64!").content()


def test_a_proof_holds_for_its_token_its_side_and_its_nonces_alone() -> None:
    mine, yours = new_nonce(), new_nonce()
    shown = proof("the token", "agent", mine, yours)
    assert proves(shown, "the token", "agent", mine, yours)
    assert not proves(shown, "another", "agent", mine, yours)
    assert not proves(shown, "the token", "coordinator", mine, yours)
    assert not proves(shown, "the token", "agent", yours, mine)
    assert new_nonce() != mine


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7070", Address("127.0.0.1", 7070)),
        ("loader-2.example:65535", Address("loader-2.example", 65_535)),
        ("[::1]:1", Address("::1", 1)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, address: Address) -> None:
    assert address_of(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":1", "host:0", "host:65536", "::1:7070", "http://h:1", "h:1 "]
)
def test_what_is_no_address_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write HOST:PORT, such as"):
        address_of(text)


def test_a_port_that_the_system_chooses_can_be_listened_at_alone() -> None:
    assert address_of("127.0.0.1:0", least_port=0).port == 0
