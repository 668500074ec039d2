"""A Kafka that takes clients by each mechanism there is, and the server at which some of them get their tokens."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ivsim.testbed.kafka import SECURE_PORT, KafkaServer, cluster_id
from ivsim.testbed.kafka_listener import Listener
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import write_secret
from schemas.kafka_login import PROTOCOL, SCRAM, client_settings, jaas
from twin import class_archive

SECRET = "s3cret-of-nobody"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "mTLS")
_MODULES = "org.apache.kafka.common.security."
_ADDRESS = "127.0.0.1"


def _text(number: int) -> str:
    return _coded(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class TokenServer:
    """Gives who knows the secret a token, signed RS256 (RFC 7515), by client credentials (RFC 6749, 4.4)."""

    def __init__(self, directory: Path, certificate: trustme.LeafCert) -> None:
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        public = self._key.public_key().public_numbers()
        self.keys = directory.with_name("jwks.json")  # Kafka reads it again and again
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": _text(public.n), "e": _text(public.e)}  # fmt: skip
        self.keys.write_text(json.dumps({"keys": [key]}))
        self.given = self.refused = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                code, answer = server.answer(self.headers.get("Authorization", ""), body)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer((_ADDRESS, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"https://{_ADDRESS}:{self._http.server_address[1]}/token"

    def answer(self, authorization: str, body: str) -> tuple[int, bytes]:
        known = base64.b64encode(f"ivsim:{SECRET}".encode()).decode()
        asked = parse_qs(body)
        if authorization != f"Basic {known}" or asked["grant_type"] != ["client_credentials"]:
            self.refused += 1
            return 401, b'{"error": "invalid_client"}'
        self.given += 1
        now = int(time.time())
        claims = {
            "iss": "tests",
            "sub": "ivsim",
            "aud": "kafka",
            "iat": now,
            "exp": now + 600,
            "scope": "fleet",
        }
        head = _coded(json.dumps({"alg": "RS256", "kid": "one", "typ": "JWT"}).encode())
        signed = f"{head}.{_coded(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_coded(signature)}"
        found = {"access_token": token, "token_type": "Bearer", "expires_in": 600, "scope": "fleet"}
        return 200, json.dumps(found).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _pkcs8(certificate: trustme.LeafCert) -> str:
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _chain(certificate: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)


class _AnyLogin(KafkaServer):
    """Attributes: mutual: address of the listener at which a certificate alone is enough."""

    mutual = ""

    def _prepare(self) -> None:
        self.reserve()
        self.mutual = self._address(SECURE_PORT)
        both = f"{PROTOCOL}://{self.bootstrap},MUTUAL://{self.mutual}"
        more = {
            "listeners": f"{both},CONTROLLER://{self._controller}",
            "advertised.listeners": both,
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},MUTUAL:SSL,CONTROLLER:PLAINTEXT",
            "listener.name.mutual.ssl.client.auth": "required",
        }
        self.prepare([self.voter], cluster_id(), more)


class Logins:
    """The Kafka, and a file for each mechanism.

    Attributes:
        server: whose first listener takes SASL.
        tokens: the server of tokens.
        files: mechanism -> path of the file that logs in.
    """

    def __init__(self, server: _AnyLogin, tokens: TokenServer, files: dict[str, str]) -> None:
        self.server, self.tokens, self.files = server, tokens, files

    def bootstrap(self, mechanism: str) -> str:
        """Return the address of the listener that takes a mechanism."""
        return self.server.mutual if mechanism == "mTLS" else self.server.bootstrap

    def wrong(self, mechanism: str, directory: Path) -> str:
        """Return the path of a file like that of a mechanism, of whom Kafka does not know."""
        path = directory / f"wrong-{mechanism}.properties"
        text = Path(self.files[mechanism]).read_text()
        if mechanism == "mTLS":
            own = trustme.CA().issue_cert(_ADDRESS)
            write_secret(directory / "other.key", _pkcs8(own))
            (directory / "other.pem").write_text(_chain(own))
            lines = [line for line in text.splitlines() if line.startswith(("mechanism", "authority"))]
            lines += [f"certificate={directory}/other.pem", f"key={directory}/other.key"]
            text = "\n".join(lines) + "\n"
        write_secret(path, text.replace(SECRET, "another"))
        return str(path)


@contextmanager
def every_login(record: RunRecord, directory: Path) -> Iterator[Logins]:
    """Start a Kafka that takes each of MECHANISMS."""
    directory.mkdir(mode=0o700)
    authority, owner = trustme.CA(), directory / "authority.pem"
    authority.cert_pem.write_to_path(owner)
    certificate = authority.issue_cert(_ADDRESS)
    store = directory / "keystore.pem"
    write_secret(store, _pkcs8(certificate) + _chain(certificate))
    client = authority.issue_cert("client.invalid", common_name="ivsim")
    write_secret(directory / "client.key", _pkcs8(client))
    (directory / "client.pem").write_text(_chain(client))

    with TokenServer(directory, certificate) as tokens:
        lines = dict.fromkeys(
            ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"), f"username=ivsim\npassword={SECRET}\n"
        ) | {
            "OAUTHBEARER": f"client_id=ivsim\nclient_secret={SECRET}\ntoken_endpoint={tokens.url}\nscope=fleet\n",
            "mTLS": f"certificate={directory}/client.pem\nkey={directory}/client.key\n",
        }
        files = {name: str(directory / f"{name}.properties") for name in lines}
        for name, text in lines.items():
            write_secret(Path(files[name]), f"mechanism={name}\n{text}authority={owner}\n")
        of = f"listener.name.{PROTOCOL.lower()}."
        account = {"username": "ivsim", "password": SECRET}
        oauth = f"{_MODULES}oauthbearer.OAuthBearer"
        properties = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(owner),
            "inter.broker.listener.name": PROTOCOL,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            f"{of}scram-sha-512.sasl.jaas.config": jaas(SCRAM, account),
            f"{of}scram-sha-256.sasl.jaas.config": jaas(SCRAM, account),
            f"{of}plain.sasl.jaas.config": jaas(f"{_MODULES}plain.PlainLoginModule", {"user_ivsim": SECRET}),
            f"{of}oauthbearer.sasl.jaas.config": jaas(f"{oauth}LoginModule", {}),
            f"{of}oauthbearer.sasl.server.callback.handler.class": f"{oauth}ValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{tokens.keys}",
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{tokens.keys}"
        with _AnyLogin(
            record,
            name="kafka-logins",
            java_options=[*class_archive.java_options("kafka"), allowed],
            listener=Listener(PROTOCOL, files["SCRAM-SHA-512"], properties),
        ) as server:
            admin = AdminClient(client_settings(server.bootstrap, files["SCRAM-SHA-512"]))
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
            told = admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("ivsim", info, SECRET.encode())]
            )
            for answer in told.values():
                answer.result(10)
            yield Logins(server, tokens, files)
