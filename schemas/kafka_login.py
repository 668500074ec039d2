"""How a client logs in at Kafka: by SCRAM-SHA-512 (RFC 5802) over TLS, with what one file says; without, in the clear.

The file has three lines, `username=`, `password=` and `authority=` (a PEM file against which the client checks the
broker), and only its owner reads it. What a process is told, and what Spark keeps of its options, is the file's path:
Kafka's own clients read name and password out of it themselves (KIP-297).
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from schemas.config import Strict
from schemas.errors import Refusal

MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOL: Final = "SASL_SSL"
# Java reads the file as its properties, and then as a configuration of JAAS: in both \ and " stand for something else.
_SAME_WORD: Final = re.compile(r"|[!#-\[\]-~](?:[ !#-\[\]-~]*[!#-\[\]-~])?")
LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class KafkaLogin(Strict):
    """What the file says.

    Attributes:
        authority: path of a PEM file.
    """

    username: str = Field(min_length=1)
    password: str = Field(min_length=1, repr=False)
    authority: str = Field(min_length=1)


def read_login(file: str) -> KafkaLogin:
    """Return what the file says; Refusal names the file, and no value in it."""
    try:
        # Java's ends of lines, which are fewer than Python's.
        lines = re.split(r"\r\n?|\n", Path(file).read_bytes().decode())
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"kafka_login {file}: {getattr(error, 'strerror', None) or 'no UTF-8'}") from None
    words = dict(line.split("=", 1) for line in lines if "=" in line)
    for key in ("username", "password"):
        if not _SAME_WORD.fullmatch(words.get(key, "")):
            raise Refusal(
                f'kafka_login {file}: {key}: only printable ASCII without " and \\, and without a space at either end,'
                " is the same word to Java and to Python"
            )
    try:
        return KafkaLogin.model_validate(words)
    except ValidationError as error:
        key = ".".join(str(part) for part in error.errors()[0]["loc"])
        keys = ", ".join(KafkaLogin.model_fields)
        raise Refusal(f"kafka_login {file}: {key}: one line each of {keys}") from None


def client_settings(bootstrap: str, login: str) -> dict[str, Any]:
    """Return librdkafka's properties that lead a client to Kafka.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
    """
    if not login:
        return {"bootstrap.servers": bootstrap}
    words = read_login(login)
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.username": words.username,
        "sasl.password": words.password,
        "ssl.ca.location": words.authority,
    }


def java_settings(bootstrap: str, login: str) -> dict[str, str]:
    """Return the properties of Kafka's own clients that lead to Kafka; no secret is among them.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
    """
    if not login:
        return {"bootstrap.servers": bootstrap}
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "sasl.jaas.config": jaas(f"${{file:{login}:username}}", f"${{file:{login}:password}}"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": read_login(login).authority,
    }


def python_settings(bootstrap: str, login: str) -> dict[str, Any]:
    """Return the arguments of aiokafka's and kafka-python's clients that lead to Kafka.

    Args:
        bootstrap: HOST:PORT.
        login: path of the file; "" without.
    """
    if not login:
        return {"bootstrap_servers": bootstrap}
    words = read_login(login)
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": PROTOCOL,
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": words.username,
        "sasl_plain_password": words.password,
        "ssl_context": ssl.create_default_context(cafile=words.authority),
    }


def jaas(username: str, password: str) -> str:
    """Return how Java writes an account."""
    return f'{LOGIN_MODULE} required username="{username}" password="{password}";'
