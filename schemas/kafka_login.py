"""How a client logs in at Kafka over TLS, with what one file says; without a file, it goes there in the clear.

The file has lines `key=value` (KEYS), and only its owner reads it. A process is told its path. Java's clients on this
machine read secrets out of it themselves (KIP-297). Spark's executors have no file: they have the secrets in their
environment, and certificates in the options.

`mechanism` is SCRAM-SHA-512 or SCRAM-SHA-256 (RFC 5802, 7677), PLAIN (RFC 4616), OAUTHBEARER (RFC 7628, by client
credentials, RFC 6749, 4.4) or mTLS, which is a certificate alone; a certificate may go with each of the others.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from schemas.config import Strict
from schemas.errors import Refusal

MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOL: Final = "SASL_SSL"
OAUTH: Final = "OAUTHBEARER"
_MTLS: Final = "mTLS"
_MODULES: Final = "org.apache.kafka.common.security."
SCRAM: Final = f"{_MODULES}scram.ScramLoginModule"
# Java reads the file as its properties, and then as a configuration of JAAS: in both \ and " stand for something else.
_SAME_WORD: Final = re.compile(r"|[!#-\[\]-~](?:[ !#-\[\]-~]*[!#-\[\]-~])?")
_URL: Final = re.compile(r"https?://[!#-\[\]-~]+")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_FILES: Final = ("authority", "certificate", "key")
# What Java takes out of the file, or on another machine out of its environment.
_HIDDEN: Final = ("username", "password", "client_id", "client_secret", "scope", "key")
# One value of a process's environment is shorter than 128 KiB (execve(2)).
_MAX_PEM_BYTES: Final = 100_000
# Spark hides the values of settings whose names say "secret".
_VARIABLE: Final = "IVSIM_KAFKA_SECRET_"


class KafkaLogin(Strict):
    """What the file says; "" is no such line.

    Attributes:
        mechanism: how one logs in, a key of _TABLE.
        username, password: of SCRAM and PLAIN.
        client_id, client_secret, token_endpoint, scope: of OAUTHBEARER.
        certificate, key: paths of PEM files, by which the client says who it is.
        authority: path of a PEM file against which brokers are checked, and the token's server; "": the system's.
    """

    mechanism: str = MECHANISM
    username: str = ""
    password: str = Field(default="", repr=False)
    client_id: str = ""
    client_secret: str = Field(default="", repr=False)
    token_endpoint: str = ""
    scope: str = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""


KEYS: Final = tuple(KafkaLogin.model_fields)


class _Mechanism(NamedTuple):
    """What one mechanism takes, and how Java writes it.

    Attributes:
        needs: keys that must be there.
        takes: keys that may be.
        module: Java's login module.
        options: its options -> key of the file.
    """

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    module: str = ""
    options: Mapping[str, str] = {}


_ACCOUNT: Final = {"username": "username", "password": "password"}
_CLIENT: Final = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}
_TABLE: Final[Mapping[str, _Mechanism]] = {
    MECHANISM: _Mechanism(tuple(_ACCOUNT), (), SCRAM, _ACCOUNT),
    "SCRAM-SHA-256": _Mechanism(tuple(_ACCOUNT), (), SCRAM, _ACCOUNT),
    "PLAIN": _Mechanism(tuple(_ACCOUNT), (), f"{_MODULES}plain.PlainLoginModule", _ACCOUNT),
    OAUTH: _Mechanism(
        ("client_id", "client_secret", "token_endpoint"),
        ("scope",),
        f"{_MODULES}oauthbearer.OAuthBearerLoginModule",
        _CLIENT,
    ),
    _MTLS: _Mechanism(("certificate", "key")),
}


def read_login(file: str) -> KafkaLogin:
    """Return what the file says; Refusal names file and key, and no value."""
    try:
        # Java's ends of lines, which are fewer than Python's.
        lines = re.split(r"\r\n?|\n", Path(file).read_bytes().decode())
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"kafka_login {file}: {getattr(error, 'strerror', None) or 'no UTF-8'}") from None
    words: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(("#", "!")):
            continue
        key, equals, word = line.partition("=")
        # Java also takes a colon, or a space: what stands before it may be a secret.
        if not equals or key not in KEYS:
            raise Refusal(
                f"kafka_login {file}: line {number}: expected KEY=VALUE; keys are {', '.join(KEYS)}"
            )
        words[key] = word
    problem = next(_problems(words), None)
    if problem is not None:
        raise Refusal(f"kafka_login {file}: {problem}")
    return KafkaLogin.model_validate(words)


def _problems(words: Mapping[str, str]) -> Iterator[str]:
    for key, word in words.items():
        if not word:
            yield f"{key}: empty"
        elif key in _FILES and set(word) & set('"\\'):
            yield f'{key}: " and \\ are not the same to Java and to Python'
        elif key not in {*_FILES, "token_endpoint"} and not _SAME_WORD.fullmatch(word):
            yield (
                f'{key}: only printable ASCII without " and \\, and without a space at either end, is the same word to Java'
                " and to Python"
            )
    mechanism = words.get("mechanism", MECHANISM)
    if mechanism not in _TABLE:
        yield f"mechanism: allowed are {', '.join(_TABLE)}"
        return
    row = _TABLE[mechanism]
    yield from (f"{key}: {mechanism} needs it" for key in row.needs if key not in words)
    taken = {*row.needs, *row.takes, "mechanism", *_FILES}
    yield from (f"{key}: {mechanism} has none" for key in words if key not in taken)
    if ("certificate" in words) != ("key" in words):
        yield "certificate and key: one needs the other"
    if "token_endpoint" in words:
        yield from _endpoint_problems(words["token_endpoint"])


def _endpoint_problems(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or not _URL.fullmatch(url):
        yield "token_endpoint: expected https://..."
    elif parts.username is not None:
        yield "token_endpoint: an account has no place in it"
    elif parts.scheme == "http" and host not in _LOOPBACK:
        yield "token_endpoint: expected https://...: the client's secret would go there in the clear"


def check_files(file: str) -> None:
    """Return when the files that a login names are there and of use; Refusal names file and key."""
    words = read_login(file)
    if set(file) & set(":}"):
        raise Refusal(f"kafka_login {file}: : and }} in its path are the end of a word to Java")
    for key in _FILES:
        if path := getattr(words, key):
            try:
                problem = next(_file_problems(key, path), None)
            except OSError as error:
                problem = str(error.strerror)
            if problem is not None:
                raise Refusal(f"kafka_login {file}: {key} {path}: {problem}")
    tls_context(file)


def _file_problems(key: str, path: str) -> Iterator[str]:
    if not Path(path).is_absolute():
        yield "write its whole path"
    text = _pem(path)
    if key == "key" and set(path) & set(":}"):
        yield ": and } in its path are the end of a word to Java"
    if key == "key" and len(text) > _MAX_PEM_BYTES:
        yield f"longer than {_MAX_PEM_BYTES:,} bytes"
    wanted = "PRIVATE KEY" if key == "key" else "CERTIFICATE"
    if f"-----BEGIN {wanted}-----" not in text:
        how = ": PKCS#8 without a password (openssl pkcs8 -topk8 -nocrypt)" if key == "key" else ""
        yield f"no PEM of a {wanted}{how}"


def _pem(path: str) -> str:
    return Path(path).read_text(encoding="ascii", errors="replace")


def client_settings(bootstrap: str, login: str) -> dict[str, Any]:
    """Return librdkafka's properties that lead a client to Kafka.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
    """
    if not login:
        return {"bootstrap.servers": bootstrap}
    words = read_login(login)
    found = {
        "bootstrap.servers": bootstrap,
        "security.protocol": _protocol(words),
        # "probe": where systems keep their authorities.
        "ssl.ca.location": words.authority or "probe",
    }
    if words.certificate:
        found |= {"ssl.certificate.location": words.certificate, "ssl.key.location": words.key}
    if words.mechanism == OAUTH:
        found |= {
            "sasl.mechanism": OAUTH,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": words.client_id,
            "sasl.oauthbearer.client.secret": words.client_secret,
            "sasl.oauthbearer.token.endpoint.url": words.token_endpoint,
            "https.ca.location": words.authority or "probe",
        }
        if words.scope:
            found["sasl.oauthbearer.scope"] = words.scope
    elif words.mechanism != _MTLS:
        found |= {
            "sasl.mechanism": words.mechanism,
            "sasl.username": words.username,
            "sasl.password": words.password,
        }
    return found


def _protocol(words: KafkaLogin) -> str:
    return "SSL" if words.mechanism == _MTLS else PROTOCOL


def java_settings(bootstrap: str, login: str, *, shipped: bool = False) -> dict[str, str]:
    """Return the properties of Kafka's own clients that lead to Kafka; no account and no key is among them.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
        shipped: the client is on a machine that has none of the files, and has `shipped_secrets` in its environment.
    """
    if not login:
        return {"bootstrap.servers": bootstrap}
    words = read_login(login)
    row = _TABLE[words.mechanism]
    trust = _trust(words, shipped=shipped)
    found = {
        "bootstrap.servers": bootstrap,
        "security.protocol": _protocol(words),
        **_PROVIDERS[shipped],
        **trust,
    }
    word = _of_environment if shipped else partial(_of_file, login)
    if row.module:
        options = {name: word(key) for name, key in row.options.items() if getattr(words, key)}
        if words.mechanism == OAUTH:
            options |= trust  # of the token's server
            found |= {
                "sasl.login.callback.handler.class": f"{_MODULES}oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": words.token_endpoint,
            }
        found |= {"sasl.mechanism": words.mechanism, "sasl.jaas.config": jaas(row.module, options)}
    if words.certificate:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _pem(words.certificate),
            "ssl.keystore.key": _of_environment("key") if shipped else _of_directory(words.key),
        }
    return found


_PROVIDER: Final = "org.apache.kafka.common.config.provider."
# By whether the client has none of the files.
_PROVIDERS: Final[Mapping[bool, Mapping[str, str]]] = {
    False: {
        "config.providers": "file,directory",
        "config.providers.file.class": f"{_PROVIDER}FileConfigProvider",
        "config.providers.directory.class": f"{_PROVIDER}DirectoryConfigProvider",
    },
    True: {"config.providers": "env", "config.providers.env.class": f"{_PROVIDER}EnvVarConfigProvider"},
}


def _of_file(login: str, key: str) -> str:
    return f"${{file:{login}:{key}}}"


def _of_directory(path: str) -> str:
    return f"${{directory:{Path(path).parent}:{Path(path).name}}}"


def _of_environment(key: str) -> str:
    return f"${{env:{_VARIABLE}{key.upper()}}}"


def _trust(words: KafkaLogin, *, shipped: bool) -> dict[str, str]:
    if not words.authority:
        return {}
    if shipped:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(words.authority)}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": words.authority}


def shipped_secrets(login: str) -> dict[str, str]:
    """Return the variables of the environment that `java_settings` names for a client that has no file; {} without a login."""
    if not login:
        return {}
    words = read_login(login)
    found = {key: getattr(words, key) for key in _HIDDEN if getattr(words, key)}
    if "key" in found:
        found["key"] = _pem(found["key"])
    return {f"{_VARIABLE}{key.upper()}": value for key, value in found.items()}


def java_system(login: str) -> dict[str, str]:
    """Return the properties of a Java in which Kafka's own clients log in: where they may ask for tokens.

    Clients before 4.0, as Spark's are, may ask everywhere.
    """
    endpoint = read_login(login).token_endpoint if login else ""
    return {"org.apache.kafka.sasl.oauthbearer.allowed.urls": endpoint} if endpoint else {}


def python_settings(bootstrap: str, login: str) -> dict[str, Any]:
    """Return the arguments of aiokafka's and kafka-python's clients that lead to Kafka.

    They have no client credentials of OAuth.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
    """
    if not login:
        return {"bootstrap_servers": bootstrap}
    words = read_login(login)
    found = {
        "bootstrap_servers": bootstrap,
        "security_protocol": _protocol(words),
        "ssl_context": tls_context(login),
    }
    if words.mechanism != _MTLS:
        found |= {
            "sasl_mechanism": words.mechanism,
            "sasl_plain_username": words.username,
            "sasl_plain_password": words.password,
        }
    return found


def tls_context(login: str) -> ssl.SSLContext:
    """Return how Python's own clients check brokers, and show who they are; Refusal for files that are of no use."""
    words = read_login(login)
    what = "authority"
    try:
        context = ssl.create_default_context(cafile=words.authority or None)
        if words.certificate:
            what = "certificate and key"
            context.load_cert_chain(words.certificate, words.key)
    except OSError as error:  # which an SSLError is
        raise Refusal(
            f"kafka_login {login}: {what}: {getattr(error, 'reason', None) or error.strerror}"
        ) from None
    return context


def jaas(module: str, options: Mapping[str, str]) -> str:
    """Return how Java writes an account."""
    # Java's tokenizer takes a quoted text to the end of its line, and reads \n in it as the end of a line.
    words = [f'{name}="{value.replace(chr(10), chr(92) + "n")}"' for name, value in options.items()]
    return f"{module} required {' '.join(words)};"
