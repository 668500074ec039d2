"""The version of a Kafka that is there, by what it says of its requests; brokers of paper, and a real one."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from ivsim.testbed.kafka_versions import STATED, check_version, unfit
from schemas.errors import Refusal

# Lowest and highest version of Produce and Fetch, by release (kafka.apache.org/protocol of each).
RELEASES = {
    "1.1": ((0, 5), (0, 7)),
    "2.0": ((0, 6), (0, 8)),
    "2.1": ((0, 7), (0, 10)),
    "2.8": ((0, 9), (0, 12)),
    "3.9": ((0, 11), (0, 17)),
    "4.0": ((3, 12), (4, 17)),
}


def said(produce: tuple[int, int], fetch: tuple[int, int]) -> bytes:
    rows = [(0, *produce), (1, *fetch), (3, 0, 13), (18, 0, 4)]
    return struct.pack("!ihi", 1, 0, len(rows)) + b"".join(struct.pack("!hhh", *row) for row in rows)


class Broker:
    """Takes one connection, reads one request and gives one answer."""

    def __init__(self, answer: bytes | None, context: ssl.SSLContext | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = self._listening.getsockname()
        self.asked = b""
        self._answer, self._context = answer, context
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                self.asked = connection.recv(4_096)
                if self._answer is not None:
                    connection.sendall(self._answer)

    def close(self) -> None:
        self._thread.join(10)
        self._listening.close()


@pytest.fixture
def broker() -> Iterator[Callable[..., Broker]]:
    opened: list[Broker] = []

    def open_(answer: bytes | None, context: ssl.SSLContext | None = None) -> Broker:
        opened.append(Broker(answer, context))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


@pytest.mark.parametrize("release", RELEASES)
def test_releases_are_told_apart(release: str) -> None:
    produce, fetch = RELEASES[release]
    problem = unfit({0: produce, 1: fetch})
    assert (problem is None) is (release not in {"1.1", "2.0"}), problem
    assert problem is None or problem.startswith("older than 2.1 (Produce up to version ")


def test_what_takes_only_later_requests_is_newer_and_what_takes_none_is_no_kafka_of_ours() -> None:
    assert unfit({0: (3, 13), 1: (17, 20)}) == "newer than 4.x (Fetch from version 17)"
    assert unfit({}) == "older than 2.1 (Produce up to version -1)"


def test_a_broker_within_the_range_is_asked_once_and_left(broker) -> None:
    there = broker(framed(said(*RELEASES["4.0"])))
    check_version(there.address, 5.0)
    there.close()
    assert there.asked == framed(b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x05ivsim")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (framed(said(*RELEASES["2.0"])), "older than 2.1"),
        (framed(said((3, 13), (17, 20))), "newer than 4.x"),
        (None, "it closes the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an answer of 1213486160 bytes"),
        (framed(struct.pack("!ihi", 1, 35, 0)), "error 35"),
        (framed(struct.pack("!ihi", 7, 0, 0)), "request 7"),
        (framed(struct.pack("!ihi", 1, 0, 1_000_000)), "unpack_from requires"),
        (framed(b"ab"), "unpack_from requires"),
        (b"\x00\x00\x00\x00", "an answer of 0 bytes"),
    ],
)
def test_what_is_not_is_refused_in_one_line_that_says_the_range(broker, answer, why) -> None:
    there = broker(answer)
    with pytest.raises(Refusal) as refused:
        check_version(there.address, 5.0)
    text = str(refused.value)
    assert text.startswith(f"--kafka 127.0.0.1:{there.address[1]}: ")
    assert why in text
    assert text.endswith(f"ivsim works with Kafka {STATED}")
    assert "\n" not in text


def test_over_tls_the_broker_is_checked_before_it_is_asked(broker, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    login = tmp_path / "login.properties"
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    login.write_text(f"username=u\npassword=secret\nauthority={tmp_path / 'ca.pem'}\n")
    there = broker(framed(said(*RELEASES["4.0"])), context)
    check_version(there.address, 5.0, str(login))
    there.close()
    assert b"secret" not in there.asked


@pytest.mark.kafka
def test_the_kafka_of_the_tests_is_within_the_range(kafka: str) -> None:
    host, _, port = kafka.rpartition(":")
    check_version((host, int(port)), 10.0)
