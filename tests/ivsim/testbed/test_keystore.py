"""What Kafka's brokers show to clients: one file with key and certificates, of an authority that clients are given."""

from __future__ import annotations

import socket
import ssl
import stat
import threading

import pytest

from ivsim.testbed.credentials import make_keystore


@pytest.fixture
def files(tmp_path):
    return make_keystore(tmp_path / "keys", "127.0.0.1")


def test_only_its_owner_reads_it_and_the_key_is_as_java_wants_it(files):
    store, authority = files
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert store.read_text().startswith("-----BEGIN PRIVATE KEY-----")  # PKCS #8
    assert "PRIVATE KEY" not in authority.read_text()


def test_a_server_with_it_is_taken_for_that_address_by_whoever_trusts_the_authority(files, tmp_path):
    _, stranger = make_keystore(tmp_path / "other", "127.0.0.1")
    assert handshake(files[0], files[1], "127.0.0.1") == "TLSv1.3"
    for authority, address in ((files[1], "127.0.0.2"), (stranger, "127.0.0.1")):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(files[0], authority, address)


def handshake(store, authority, address):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(store)
    ours, theirs = socket.socketpair()

    def serve():
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()  # the client would not have it

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ssl.create_default_context(cafile=authority).wrap_socket(
            ours, server_hostname=address
        ) as client:
            return client.version()
    finally:
        ours.close()
        thread.join()
