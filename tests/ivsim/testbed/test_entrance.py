"""The way in for vehicles of other machines: from an address of this host to a server that is in a namespace alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from ivsim.testbed.entrance import Entrance
from ivsim.testbed.registry import RunRecord
from schemas.topics import CLOUD_ADDRESS
from simulator.links.direct import DirectLink
from simulator.links.namespaces import inside

pytestmark = pytest.mark.netns

WAIT_S = 20.0


@contextlib.contextmanager
def echo(link: DirectLink) -> Iterator[int]:
    """Yield the port of a server at the cloud's end that sends back what comes, until a client's end."""
    with inside(link.cloud_namespace):
        listening = socket.create_server((CLOUD_ADDRESS, 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    while data := connection.recv(4_096):
                        connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def test_a_client_of_this_host_reaches_a_server_of_the_namespace_until_the_entrance_is_closed(
    run_record: RunRecord,
) -> None:
    with DirectLink(run_record.run_id[1:7], 1) as link, echo(link) as port:
        with Entrance(
            run_record,
            "entrance",
            host="127.0.0.1",
            namespace=link.cloud_namespace,
            target=(CLOUD_ADDRESS, port),
        ) as entrance:
            assert (entrance.host, entrance.process.running()) == ("127.0.0.1", True)
            for _ in range(2):
                with socket.create_connection((entrance.host, entrance.port), timeout=WAIT_S) as client:
                    client.sendall(b"there and back")
                    client.shutdown(socket.SHUT_WR)
                    assert b"".join(iter(lambda client=client: client.recv(4_096), b"")) == b"there and back"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((entrance.host, entrance.port), timeout=WAIT_S)
