"""Power cuts over platforms and durabilities, in a random order: their file, their table, their report."""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any, Final

from ivsim.runs.versions import environment
from ivsim.study.engines.pipe.platforms import PLATFORMS, check_promises, platform_named
from ivsim.study.engines.pipe.power_cut import CUT_BETWEEN_S, PAYLOAD_BYTES, cut, settings_of
from ivsim.testbed import machine
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.json_files import write_json

SCHEMA: Final = 1
FILE: Final = "power-cuts.json"
REPORT: Final = "report.md"
ERROR_CHARACTERS: Final = 2_000
HEAD: Final = (
    "platform", "durability", "cuts", "acknowledged", "lost", "span s", "twice", "back s"
)  # fmt: skip
_TEXT: Final = """# What platforms keep when the power fails

Each platform stands on a machine of its own, a user-mode Linux with an ext4 disk, and is sent {rate:g} records/s of
{payload:,} B in an open loop. Between {first:g} and {last:g} s after the first acknowledgement that machine is killed,
switched on again with the same disk, and read from the beginning.

*Lost* is what was acknowledged and is not there; the *span* is the longest from a lost record's acknowledgement to the
cut; *twice* are copies beside the first; *back* is the median from the cut to the first new acknowledgement, the start
of the machine included.
"""


@dataclass(frozen=True)
class Asked:
    """What a series is to do.

    Attributes:
        platforms: names of the table `PLATFORMS`.
        durabilities: of each platform, in its own words: `cache`, `synced`.
        cuts: of each of those.
        rate: records a second.
        seed: of the order, of each cut's moment and payload.
    """

    platforms: Sequence[str]
    durabilities: Sequence[str]
    cuts: int
    rate: float
    seed: int

    def order(self) -> list[tuple[str, str, int]]:
        """Return platform, durability and seed of each cut, in blocks that each have all of them in a random order."""
        random = Random(self.seed)
        found = []
        for _ in range(self.cuts):
            block = [(one, mode) for one in self.platforms for mode in self.durabilities]
            random.shuffle(block)
            found += [(*pair, random.getrandbits(32)) for pair in block]
        return found


def checked(asked: Asked) -> Asked:
    """Return what was asked, if this machine can do it; Refusal names what it cannot."""
    check_promises(asked.platforms, asked.durabilities)
    lack = machine.missing()
    if lack is not None:
        raise Refusal(lack)
    return asked


def cuts(asked: Asked, path: Path, tell: Callable[[int, int, str], None]) -> list[dict[str, Any]]:
    """Cut the power as often as asked; the file in `path` is whole after each cut.

    Args:
        asked: checked.
        path: an empty directory.
        tell: is called before each cut: how many are over, how many there are, and which is next.
    """
    order = asked.order()
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-power-{secrets.token_hex(3)}"
    packages = sorted({package for one in asked.platforms for package in platform_named(one).packages})
    said: dict[str, Any] = {
        "schema": SCHEMA,
        "asked": asdict(asked),
        "payload_bytes": PAYLOAD_BYTES,
        "cut_between_s": CUT_BETWEEN_S,
        "load_before": os.getloadavg(),
        **environment(),
        "cuts": [],
    }
    said["versions"] |= {package: metadata.version(package) for package in packages}
    for number, (platform, durability, seed) in enumerate(order):
        tell(number, len(order), f"{platform} {durability}")
        with RunRecord(name, path) as record, record.scratch_within(path / "work") as work:
            settings = settings_of(platform, durability, asked.rate)
            said["cuts"].append(_tried(settings, seed, record, work))
        write_json(path / FILE, said)
    (path / REPORT).write_text(_page(said))
    found: list[dict[str, Any]] = said["cuts"]
    return found


def _tried(settings: dict[str, Any], seed: int, record: RunRecord, work: Path) -> dict[str, Any]:
    """Return one cut as the file has it; one whose platform did not come back says why in `error`."""
    try:
        found = cut(settings, seed, record, work)
    except (ProcessDied, NotReady) as failed:
        why = " ".join(str(failed).split())
        kind = {name: settings[name] for name in ("platform", "durability")}
        return {**kind, "seed": seed, "error": why[:ERROR_CHARACTERS]}
    return {**asdict(found), "error": None}


def rows(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the table below `HEAD`: a row for each platform and durability, in the tables' order."""
    return [_row(kind, [one for one in found if _kind(one) == kind]) for kind in _kinds(found)]


def _kind(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["platform"], one["durability"]


def _kinds(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    there = set(map(_kind, found))
    return [
        (name, mode)
        for name in PLATFORMS
        for mode in platform_named(name).durability
        if (name, mode) in there
    ]


def _row(kind: tuple[str, str], found: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    done = [one for one in found if one["error"] is None]
    head = *kind, f"{len(done)} of {len(found)}" if len(done) < len(found) else str(len(found))
    if not done:
        return (*head, *[""] * (len(HEAD) - len(head)))
    spans = [one["lost_span_s"] for one in done if one["lost_span_s"] is not None]
    names = ("acknowledged", "lost", "lost_after", "duplicates")
    total = {name: sum(one[name] for one in done) for name in names}
    return (
        *head,
        f"{total['acknowledged']:,}",
        f"{total['lost'] + total['lost_after']:,}",
        f"{max(spans):.2f}" if spans else "",
        f"{total['duplicates']:,}",
        f"{statistics.median(one['recovery_s'] for one in done):.1f}",
    )


def _page(said: Mapping[str, Any]) -> str:
    """Return the report: the table, how it was made, what did not come back."""
    asked, found = said["asked"], said["cuts"]
    first, last = said["cut_between_s"]
    settings = [platform_named(name).durability[mode] for name, mode in _kinds(found)]
    failed = [one for one in found if one["error"] is not None]
    versions = ", ".join(f"{name} {value}" for name, value in sorted(said["versions"].items()))
    return "\n".join(
        [
            _TEXT.format(rate=asked["rate"], payload=said["payload_bytes"], first=first, last=last),
            f"| {' | '.join(HEAD)} | its setting |",
            f"|---|---|{'--:|' * (len(HEAD) - 2)}---|",
            *(
                f"| {' | '.join(row)} | {setting} |"
                for row, setting in zip(rows(found), settings, strict=True)
            ),
            "",
            *(
                f"- {one['platform']} {one['durability']}, seed {one['seed']}: {one['error']}"
                for one in failed
            ),
            *([""] if failed else []),
            f"Seed {asked['seed']}; load before it {said['load_before'][0]:.1f}; {versions}.",
            "",
        ]
    )
