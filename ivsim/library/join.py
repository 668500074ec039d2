"""One result of a fleet's shares, each sent by a run of its own on another machine: ledger, figures and page of the fleet.

A run's figures follow from the logs of its senders and of its capture, so those of all shares side by side make the fleet's.
Each time in them is of the clock beside its vehicle, and with the topology `peer` no figure compares the clocks of two
machines: the acknowledgement time and the emission lag begin and end at one. How far each clock may be from UTC, by its
kernel's word, stands beside the share. Of a share whose result is missing nobody knows what it has sent: its messages are
`unknown`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.agents.log_times import give_up
from ivsim.library.folder import is_study, is_unfinished
from ivsim.library.report_anew import built_ledger
from ivsim.option_rules import past_options
from ivsim.options import RunOptions, option_name
from ivsim.runs.checksums import check, write_checksums
from ivsim.runs.directory import SCHEMA, RunDirectory, make_run_directory, new_run_id
from ivsim.runs.link_log import KEY
from ivsim.runs.processes import scenario_of
from ivsim.runs.result import LinkRows, ledger_config, write_result
from ivsim.runs.snapshot import Facts, write_snapshot
from ivsim.share import FleetShare, share_of
from schemas.errors import Refusal
from schemas.json_files import read_json, write_json
from schemas.topics import vehicle_id
from simulator.capture.process import CATEGORIES_NAME, HANDSHAKES_NAME, LOG_NAME, MESSAGES_NAME, TABLE_NAME
from simulator.capture.second_log import MAGIC, read_log, to_table
from simulator.capture.tables import ATTRIBUTED_ENDS
from simulator.emission_log import Kind, Reason
from simulator.emission_table import read_events

# Of options: what may differ from machine to machine. When the start was, and what a log of drives held, manifests say.
_OWN: Final = frozenset({
    "share", "start_at", "share_results", "s3_endpoint", "name", "tags", "shards", "page", "page_port", "metrics_port", "pcap",
    "vehicle_log", "vehicle_mapping",
    "target", "target_consent", "target_accounts", "target_certificates", "target_ca", "target_keys",
})  # fmt: skip
_CAPTURED: Final = (MESSAGES_NAME, CATEGORIES_NAME, HANDSHAKES_NAME)
_OF_MESSAGES: Final = (Kind.EMITTED, Kind.ACKNOWLEDGED, Kind.UNSENT)
# Of each share; all but its vehicles None of one that is missing.
_TOLD: Final = ("share", "run", "vehicles", "clock_error_ms", "clock_drift_ms", "verdict", "words")
_SHARE, _START_AT = option_name("share"), option_name("start_at")


class _Part(NamedTuple):
    """The result of one share."""

    run: RunDirectory
    manifest: dict[str, Any]
    told: dict[str, Any]
    options: RunOptions

    @property
    def share(self) -> FleetShare:
        assert self.options.share is not None, "`_part` has refused others"
        return share_of(self.options.share)


def join(
    directories: Sequence[Path], output: Path | None, say: Callable[[str], None] = lambda _: None
) -> RunDirectory:
    """Make the result of a fleet from those of its shares; Refusal, and nothing made, of what are no shares of one fleet.

    Args:
        directories: of the shares' results, in any order; a share that is missing makes its messages unknown.
        output: where the result goes; None: below `results`.
        say: is told of each step in a few words.
    """
    parts = sorted(map(_part, directories), key=lambda part: part.share)
    _alike(parts)
    first = parts[0]
    options = first.options.model_copy(update={"share": None, "start_at": None, "name": None, "tags": ()})
    run_id = new_run_id(options)
    there = output is not None and output.is_dir()
    made = make_run_directory(output, run_id)
    try:
        say("reading the logs of the shares")
        missing = _logs(made, parts, options)
        if not missing:  # bytes of some vehicles alone are no figure of the fleet
            _wire(made, parts)
        write_json(made.manifest, _manifest(made, first, run_id, options))
        write_snapshot(made, options, _link_rows(parts), _facts(parts, missing, options))
        figures = built_ledger(ledger_config(made.path, options), say)
        say("working out the figures")
        write_result(made, figures)
        shutil.rmtree(made.work)
        write_checksums(made)
    except BaseException as error:
        _unmake(made.path, keep=there)
        if isinstance(error, OSError):
            raise Refusal(f"{made.path}: {error.strerror or error}") from None
        raise
    return made


def _unmake(path: Path, *, keep: bool) -> None:
    """Remove what was made; `keep`: the directory itself was there before."""
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
    if not keep:
        path.rmdir()


def _part(directory: Path) -> _Part:
    """Return a share's result; Refusal unless it is one, whole, and as its run wrote it."""
    if is_study(directory):
        raise Refusal(f"{directory}: results of a study, and no share of a fleet")
    if is_unfinished(directory):
        raise Refusal(f"{directory}: the run goes on, or was killed: `ivsim report {directory}` finishes it")
    check(directory)
    run = RunDirectory(directory.absolute())
    manifest = read_json(run.manifest)
    if manifest.get("schema") != SCHEMA:
        raise Refusal(f"{run.manifest}: schema {manifest.get('schema')!r}: this version reads {SCHEMA}")
    options = past_options(manifest["options"])
    if options.share is None:
        raise Refusal(f"{directory}: the result of a whole fleet: those of runs with {_SHARE} are joined")
    if not run.ledger.is_file():
        raise Refusal(f"{directory}: there is no ledger: `ivsim report --ledger {directory}` makes it")
    return _Part(run, manifest, read_json(run.snapshot), options)


def _alike(parts: Sequence[_Part]) -> None:
    """Refuse results that are not shares of one fleet, each once."""
    first = parts[0]
    for part in parts[1:]:
        for name, value in first.options.model_dump(exclude=set(_OWN)).items():
            if (other := getattr(part.options, name)) != getattr(first.options, name):
                raise Refusal(
                    f"{part.run.path}: {option_name(name)} {other}: {first.run.path} has {value}: no shares of one fleet"
                )
        if part.share.total != first.share.total:
            raise Refusal(
                f"{part.run.path}: {_SHARE} {part.share}: {first.run.path} is {first.share}: no shares of one fleet"
            )
        if part.manifest.get("vehicle_log") != first.manifest.get("vehicle_log"):
            raise Refusal(
                f"{part.run.path}: {option_name('vehicle_log')} or {option_name('vehicle_mapping')}: another file than"
                f" {first.run.path} had: no shares of one fleet"
            )
        if part.manifest["start_at_ns"] != first.manifest["start_at_ns"]:
            raise Refusal(
                f"{part.run.path}: began at another time than {first.run.path}: give all one {_START_AT}"
            )
    for part, other in pairwise(parts):
        if part.share == other.share:
            raise Refusal(f"{other.run.path}: {_SHARE} {other.share}: so is {part.run.path}")


def _logs(made: RunDirectory, parts: Sequence[_Part], options: RunOptions) -> list[FleetShare]:
    """Put the senders' logs of all shares side by side; return the shares that are missing, with a log that says so."""
    count = parts[0].share.total
    there = {part.share.number for part in parts}
    missing = [FleetShare(number, count) for number in range(1, count + 1) if number not in there]
    logs = [log for part in parts for log in part.run.emission_logs()]
    total = len(logs) + len(missing)
    for part in parts:
        events = read_events(part.run.emission_logs())
        senders = set(np.unique(events["vehicle"][np.isin(events["kind"], _OF_MESSAGES)]).tolist())
        if strangers := senders.difference(part.share.vehicles(options.vehicles)):
            raise Refusal(
                f"{part.run.path}: sent for vehicle {min(strangers)}, which is not of {_SHARE} {part.share}"
            )
    for index, log in enumerate(logs):
        shutil.copyfile(log, made.emission_log(index, total))
    start_at_ns = int(parts[0].manifest["start_at_ns"])
    for index, share in enumerate(missing, len(logs)):
        log, vehicles = made.emission_log(index, total), share.vehicles(options.vehicles)
        give_up(log, scenario_of(options, on_roads=False), vehicles, start_at_ns, Reason.SHARE_MISSING)
    return missing


def _wire(made: RunDirectory, parts: Sequence[_Part]) -> None:
    """Put side by side what the captures of all shares have seen; nothing where one has no capture."""
    paths = [part.run.path for part in parts]
    if not all((path / name).is_file() for path in paths for name in (LOG_NAME, *_CAPTURED)):
        return
    with (made.path / LOG_NAME).open("wb") as log:
        log.write(MAGIC)
        for part in parts:
            records = read_log(part.run.path / LOG_NAME)
            log.write(records[~np.isin(records["vehicle"], _strangers(part))].tobytes())
    for name in (TABLE_NAME, *_CAPTURED):
        found = [pq.read_table(path / name) for path in paths]
        told = [table.schema.metadata or {} for table in found]
        metadata = {}
        if all(b"kernel_drops" in one for one in told):  # a capture that was killed does not say
            drops = sum(int(one[b"kernel_drops"]) for one in told)
            metadata = {b"kernel_drops": str(drops).encode(), b"complete": str(drops == 0).lower().encode()}
        if any(ATTRIBUTED_ENDS in one for one in told):
            metadata[ATTRIBUTED_ENDS] = json.dumps(_attributed(parts, told)).encode()
        if name == TABLE_NAME:
            rows = to_table(made.path / LOG_NAME)
        else:
            both = zip(parts, found, strict=True)
            rows = pa.concat_tables(
                table.filter(
                    pc.invert(pc.is_in(table["vehicle_id"], pa.array(_stranger_names(part), pa.string())))
                )
                for part, table in both
            )
        pq.write_table(rows.replace_schema_metadata(metadata), made.path / name)


def _strangers(part: _Part) -> list[int]:
    """Return the vehicles of the fleet that are not the share's; its link has them, and probes some."""
    own = part.share.vehicles(part.options.vehicles)
    return [number for number in range(1, part.options.vehicles + 1) if number not in own]


def _stranger_names(part: _Part) -> list[str]:
    return [vehicle_id(number) for number in _strangers(part)]


def _attributed(parts: Sequence[_Part], told: Sequence[Mapping[bytes, bytes]]) -> list[int] | None:
    """Return whose bytes are attributed to messages; None: everybody's."""
    ends = [json.loads(one.get(ATTRIBUTED_ENDS, b"null")) for one in told]
    if not any(ends):
        return None
    own = [part.share.vehicles(part.options.vehicles) for part in parts]
    return sorted(number for some, all_of in zip(ends, own, strict=True) for number in (some or all_of))


def _link_rows(parts: Sequence[_Part]) -> list[pa.Table]:
    """Return what each share's link was asked, for its own vehicles, in the order of seconds."""
    found = []
    for part in parts:
        own = [vehicle_id(number) for number in part.share.vehicles(part.options.vehicles)]
        rows = pa.concat_tables(LinkRows(part.run.link))
        found.append(rows.filter(pc.is_in(rows["vehicle_id"], pa.array(own))))
    order = [(name, "ascending") for name in KEY]
    return [pa.concat_tables(found).sort_by(order)]


def _replay(parts: Sequence[_Part]) -> dict[str, Any] | None:
    """Return how punctual the links' replays were, the latest change of all; None where one left nothing."""
    told = [part.told["replay"] for part in parts]
    if None in told:
        return None
    late = {
        name: max(one[name] for one in told) for name in ("steps", "update_max_ms", "applied_late_max_ms")
    }
    failure = next((one["failure"] for one in told if one["failure"] is not None), None)
    return {**told[0], **late, "failure": failure}


def _manifest(made: RunDirectory, first: _Part, run_id: str, options: RunOptions) -> dict[str, Any]:
    """Return the first share's manifest as that of the fleet, without what is of that machine's run alone."""
    of_all = {name: value for name, value in first.manifest.items() if name not in {"timings_s", "notes"}}
    return {
        **of_all,
        "run": run_id,
        "options": options.model_dump(),
        "sender": {"shards": len(made.emission_logs()), "scheduling": None},
        "notes": [],
    }


def _facts(parts: Sequence[_Part], missing: Sequence[FleetShare], options: RunOptions) -> Facts:
    told = [part.told for part in parts]
    drifts = [read_json(part.run.path / "clock.json")["clock_drift_ms"] for part in parts]
    stops = [one["stop_at_ns"] for one in told]
    return Facts(
        start_at_ns=int(parts[0].manifest["start_at_ns"]),
        # The fleet goes on while one of its shares does: what a share that was stopped had not sent is unsent.
        stop_at_ns=None if None in stops else max(stops),
        clock_drift_ms=None if None in drifts else max(drifts, key=abs),
        replay=_replay(parts),
        senders=[sender for one in told for sender in one["senders"]],
        deaths={
            f"{name} of share {part.share}": words
            for part in parts
            for name, words in part.told["deaths"].items()
        },
        shares=[
            *map(_of_share, parts),
            *(
                dict.fromkeys(_TOLD)
                | {"share": str(share), "vehicles": len(share.vehicles(options.vehicles))}
                for share in missing
            ),
        ],
        problems=[f"share {part.share}: {problem}" for part in parts for problem in part.told["problems"]]
        + [f"the result of share {share} is missing" for share in missing],
    )


def _of_share(part: _Part) -> dict[str, Any]:
    """Return what is told of a share: its run, its machine, its clock, and what its own figures are worth."""
    validity = read_json(part.run.metrics)["validity"]
    clock = read_json(part.run.path / "clock.json")
    told = (
        str(part.share),
        part.manifest["run"],
        part.options.sending,
        clock.get("clock_error_ms"),
        clock["clock_drift_ms"],
        validity["verdict"],
        "; ".join(cause["words"] for cause in validity["causes"]),
    )
    return dict(zip(_TOLD, told, strict=True))
