"""Checks before a measurement starts: whether the platform takes records so large, and whether a registry answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from ivsim.study.engines.pipe.idioms import codec_of, contents, needs_registry
from ivsim.study.engines.pipe.options import PipeOptions, option_name
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.registry_stub import registry_if
from ivsim.study.engines.pipe.schema_registry import is_registry
from schemas.errors import Refusal

SAMPLED: Final = 1_000


def same_check(options: PipeOptions) -> Hashable:
    """Return what measurements have alike for which one check is enough, whatever the seed."""
    row = platform_named(options.platform)
    held = () if row.room_bytes() is None else (options.rate, options.duration_s)
    return (options.platform, options.record, options.format, options.registry, *held)


def check_records(options: PipeOptions) -> int:
    """Return the bytes of the largest payload among the first records; Refusal when the platform takes none so large."""
    found = contents(options.record, min(options.different, SAMPLED), options.seed)
    if options.registry is not None and not is_registry(options.registry.rstrip("/")):
        raise Refusal(f"{option_name('registry')} {options.registry}: no schema registry answers")
    with registry_if(needs_registry(options.record, options.format), options.registry) as registry:
        codec = codec_of(options.record, options.format, registry)
        sizes = [len(codec.encode(one if codec.build is None else codec.build(one))) for one in found]
    largest = max(sizes)
    row = platform_named(options.platform)
    limit = row.record_bytes
    if largest > limit:
        raise Refusal(
            f"{option_name('record')} {options.record}: {largest:,} B in {options.format};"
            f" {options.platform} takes at most {limit:,} B"
        )
    room_bytes = row.room_bytes()
    if room_bytes is not None and options.rate is not None:
        held = options.rate * options.duration_s * sum(sizes) / len(sizes)
        if held > room_bytes:
            raise Refusal(
                f"{option_name('rate')} {options.rate:g} for {options.duration_s:g} s: {held / 2**20:,.0f} MiB of"
                f" payload; {options.platform} keeps all of it in memory, and has room for {room_bytes / 2**20:,.0f} MiB"
            )
    return largest
