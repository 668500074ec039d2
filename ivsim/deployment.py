"""A deployment profile: one TOML file of where a run's Kafka, Spark and target are; each key is an option, too.

What a profile says is less than what a `--config` file, the environment or the command line says. It holds no secret: those
are in files that it names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateways.sinks import KAFKA
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal

# Section -> key -> option.
KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {
        "bootstrap": "kafka",
        "login": "kafka_login",
        "topic_prefix": "kafka_topic_prefix",
        "keep_topics": "keep_topics",
        "partitions": "kafka_partitions",
        "replication": "kafka_replication",
        "min_insync": "kafka_min_insync",
        "producer": "kafka_producer",
    },
    "spark": {
        "master": "spark_master",
        "conf": "spark_conf",
        "checkpoint": "spark_checkpoint",
        "driver_host": "spark_driver_host",
    },
    "store": {"endpoint": "s3_endpoint", "history": "history"},
    "target": {
        "url": "target",
        "consent": "target_consent",
        "accounts": "target_accounts",
        "ca": "target_ca",
        "certificates": "target_certificates",
        "keys": "target_keys",
    },
}
# Those whose value is a table of settings of a library.
_TABLES: Final = frozenset({"kafka_producer", "spark_conf"})
# Files are named from where the profile is, so that the two can be moved together.
_FILES: Final = frozenset(
    {"kafka_login", "target_accounts", "target_ca", "target_certificates", "target_keys", "history"}
)


class Profile(NamedTuple):
    """What a profile says.

    Attributes:
        fields: option -> value.
        names: option -> "FILE: SECTION.KEY", as refusals call it.
    """

    fields: Mapping[str, Any]
    names: Mapping[str, str]

    def of_run(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what it says of the servers that a run has to do with: without twins or gateways it needs none of theirs.

        Args:
            given: the fields that were said elsewhere.
        """
        said = given.get("topology")
        topology = TOPOLOGIES.get(said) if isinstance(said, str) else None
        if topology is None or topology.twins:  # without one it is `gateway`; what is none is refused later
            return self.fields
        kept = set(KEYS["target"].values())
        if topology.bridged and given.get("platform", KAFKA) == KAFKA:
            kept |= set(KEYS["kafka"].values())
        if "share_results" in given:
            kept.add("s3_endpoint")
        return {field: value for field, value in self.fields.items() if field in kept}


NONE: Final = Profile({}, {})


def read_profile(path: Path | None) -> Profile:
    """Return what a profile says, nothing for None; Refusal names file and key, and no value."""
    if path is None:
        return NONE
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"--profile {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"--profile {path}: {error}") from None
    fields, names = {}, {}
    for section, content in said.items():
        if section not in KEYS or not isinstance(content, dict):
            raise Refusal(f"{path}: {section}: no such section; sections are {', '.join(KEYS)}")
        for key, value in content.items():
            if key not in KEYS[section]:
                raise Refusal(f"{path}: {section}.{key}: no such key; keys are {', '.join(KEYS[section])}")
            field, name = KEYS[section][key], f"{path}: {section}.{key}"
            fields[field], names[field] = _value(path, field, name, value), name
    return Profile(fields, names)


def _value(path: Path, field: str, name: str, value: Any) -> Any:
    if field in _TABLES:
        if not isinstance(value, dict) or not all(
            isinstance(one, str | int | float) for one in value.values()
        ):
            raise Refusal(
                f"{name}: expected a table of texts and numbers; a key with dots stands in quotation marks"
            )
        return tuple(f"{key}={_plain(one)}" for key, one in value.items())
    if isinstance(value, list | dict):
        raise Refusal(f"{name}: expected a text or a number")
    if field in _FILES and isinstance(value, str) and "://" not in value:
        return str(path.parent / value)
    return value


def _plain(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
