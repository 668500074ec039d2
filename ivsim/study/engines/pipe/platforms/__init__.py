"""The table of platforms, each a way of a record from producer to consumer; a new one is a file and a line here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ivsim.study.engines.pipe.platforms.base import Platform

# what `--platform` is -> module:class, loaded when it is asked for: clients' processes import none but their own
PLATFORMS = {
    "kafka": "ivsim.study.engines.pipe.platforms.kafka:Kafka",
    "pulsar": "ivsim.study.engines.pipe.platforms.pulsar:Pulsar",
    "redis": "ivsim.study.engines.pipe.platforms.redis:Redis",
    "null": "ivsim.study.engines.pipe.platforms.null:Null",
}


def platform_named(name: str) -> Platform:
    """Return a platform of the table; KeyError for an unknown one."""
    return _loaded(PLATFORMS[name])


@cache
def _loaded(where: str) -> Platform:
    module, _, name = where.partition(":")
    platform: Platform = getattr(import_module(module), name)()
    return platform
