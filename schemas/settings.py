"""KEY=VALUE settings that are handed on to a library: which may be said, and which are this program's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

_PAIR: Final = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9._-]{0,127})=(?P<value>[ -~]{0,500})")
# What options say, manifests keep and processes show; secrets have files.
_SECRET: Final = re.compile(
    r"password|passwd|secret|token|credential|access\.?key|private|jaas|ssl\.key", re.IGNORECASE
)

# By which Kubernetes gives an executor a variable out of a secret of its own; the value is that secret's name.
BY_KUBERNETES: Final = "spark.kubernetes.executor.secretKeyRef."

# What librdkafka's producer in a gateway may be told beside what the gateway decides: all else it decides, or its login.
_PRODUCER_OWN: Final = re.compile(
    r"bootstrap\.servers|metadata\.broker\.list|security\..*|sasl\..*|ssl\..*|enable\.ssl\..*|.*_cb|plugin\..*|oauth.*"
    r"|acks|request\.required\.acks|enable\.idempotence|enable\.gapless\.guarantee|transactional\.id|.*partitioner.*"
    r"|message\.timeout\.ms|delivery\.timeout\.ms|batch\.num\.messages|message\.max\.bytes|queue\.buffering\.max\.messages"
    r"|queue\.buffering\.max\.kbytes|statistics\.interval\.ms|delivery\.report\.only\.error|max\.in\.flight.*|retries"
    r"|message\.send\.max\.retries|queuing\.strategy|client\.id|debug|log.*|enabled_events|on_delivery|opaque"
)
# What the twin relies on; the rest of Spark's settings, memory and addresses among them, are its user's.
_SPARK_OWN: Final = re.compile(
    r"spark\.(master|app\.name|jars|local\.dir|remote|submit\..*|driver\.extraJavaOptions|ui\.showConsoleProgress)"
    r"|spark\.(dynamicAllocation\.enabled|speculation|default\.parallelism|driver\.host)"
    r"|spark\.sql\.(catalog\.ivsim|shuffle\.partitions|session\.timeZone|warehouse\.dir|adaptive\.enabled)"
    r"|spark\.sql\.streaming\.(stateStore\..*|noDataMicroBatches\.enabled|checkpointLocation|metricsEnabled)"
)


def _pairs(words: Iterable[str], own: Callable[[str], bool], example: str) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for word in words:
        match = _PAIR.fullmatch(word)
        key = match["key"] if match else word.partition("=")[0][:80]
        # Before the form, so that no refusal shows what stands behind such a key.
        if _SECRET.search(key) and not key.startswith(BY_KUBERNETES):
            raise ValueError(f"{key}: a secret has no place in an option, which a run's manifest keeps")
        if match is None:
            raise ValueError(f"{key!r}: write KEY=VALUE, such as {example}")
        if own(key):
            raise ValueError(f"{key}: ivsim decides it itself, or by an option of its own")
        if key in found:
            raise ValueError(f"{key}: stands twice")
        found[key] = word
    return tuple(found[key] for key in sorted(found))


def producer_settings(words: Iterable[str]) -> tuple[str, ...]:
    """Return settings of librdkafka for a gateway's producer, by key; ValueError for one that is none to choose."""
    return _pairs(words, lambda key: _PRODUCER_OWN.fullmatch(key) is not None, "linger.ms=5")


def spark_settings(words: Iterable[str]) -> tuple[str, ...]:
    """Return settings of Spark, by key; ValueError for one that is none to choose."""
    return _pairs(
        words,
        lambda key: not key.startswith("spark.") or _SPARK_OWN.fullmatch(key) is not None,
        "spark.driver.memory=4g",
    )


def as_mapping(words: Iterable[str]) -> dict[str, str]:
    """Return checked settings by key."""
    return {key: value for key, _, value in (word.partition("=") for word in words)}
