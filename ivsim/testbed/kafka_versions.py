"""Which Kafka a broker that is there is, by the versions of its requests (KIP-35); it makes and changes nothing there.

A broker does not say its release. It says for each kind of request which versions it takes, and those grow with releases:
that is also what decides whether a client can speak to it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from schemas.errors import Refusal
from schemas.kafka_login import tls_context

STATED: Final = "2.1 to 4.x"

_API_VERSIONS: Final = 18
_CLIENT: Final = b"ivsim"
_MAX_ANSWER_BYTES: Final = 1 << 20
# Kind of request: its number, the version that came with 2.1, the oldest to which Kafka's present clients speak (KIP-896),
# and the highest that librdkafka speaks: a broker that takes only later ones is of a release after 4.
_NEEDED: Final = {"Produce": (0, 7, 10), "Fetch": (1, 10, 16)}

Versions = dict[int, tuple[int, int]]


def check_version(address: tuple[str, int], timeout_s: float, login: str = "") -> None:
    """Return when the Kafka at an address is one that ivsim can use; else Refusal, which says which it can.

    Args:
        address: host and port.
        timeout_s: for each step of the exchange.
        login: path of the file by which clients log in; a broker says its versions before anybody does. "" goes there in
            the clear.
    """
    where = f"--kafka {address[0]}:{address[1]}"
    try:
        found = _asked(address, timeout_s, login)
    except (OSError, ValueError, struct.error) as error:
        raise Refusal(
            f"{where}: does not say its version ({error}): ivsim works with Kafka {STATED}"
        ) from None
    problem = unfit(found)
    if problem is not None:
        raise Refusal(f"{where}: {problem}: ivsim works with Kafka {STATED}")


def unfit(found: Versions) -> str | None:
    """Return why a broker is outside the range; None for one within.

    Args:
        found: number of a kind of request -> lowest and highest version that the broker takes.
    """
    for name, (number, needed, spoken) in _NEEDED.items():
        low, high = found.get(number, (0, -1))
        if high < needed:
            return f"older than 2.1 ({name} up to version {high})"
        if low > spoken:
            return f"newer than 4.x ({name} from version {low})"
    return None


def _asked(address: tuple[str, int], timeout_s: float, login: str) -> Versions:
    with socket.create_connection(address, timeout_s) as plain:
        plain.settimeout(timeout_s)
        if not login:
            return _exchange(plain)
        with tls_context(login).wrap_socket(plain, server_hostname=address[0]) as secured:
            return _exchange(secured)


def _exchange(connection: socket.socket) -> Versions:
    """Send ApiVersions 0, which every release takes, and return the answer."""
    body = struct.pack("!hhih", _API_VERSIONS, 0, 1, len(_CLIENT)) + _CLIENT
    connection.sendall(struct.pack("!i", len(body)) + body)
    (length,) = struct.unpack("!i", _exactly(connection, 4))
    if not 0 < length <= _MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {length} bytes")
    answer = _exactly(connection, length)
    correlation, error, count = struct.unpack_from("!ihi", answer)
    if correlation != 1 or error:
        raise ValueError(f"error {error} to request {correlation}")
    rows = [struct.unpack_from("!hhh", answer, 10 + 6 * at) for at in range(count)]
    return {number: (low, high) for number, low, high in rows}


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ValueError("it closes the connection")
        data += part
    return data
