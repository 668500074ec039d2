"""A server's port belongs to it before its start and between two starts."""

from __future__ import annotations

import socket

import pytest

from ivsim.testbed.process import hold_port


def test_a_held_port_is_for_a_server_that_may_share_it_and_for_nobody_else() -> None:
    with hold_port() as holder, socket.socket() as stranger, socket.socket() as server:
        address = holder.getsockname()
        with pytest.raises(OSError, match="in use"):
            stranger.bind(address)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()
        socket.create_connection(address).close()
