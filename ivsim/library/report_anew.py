"""Rebuilds a finished run's metrics and report from its files, and its ledger if asked; nothing is measured again.

The code is the run's own (`ivsim.runs.result`). What Kafka held was counted while it was there: without `ledger` these counts
stay as the run said them. The result changes when all of it is made, and not before.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.library.folder import is_study, is_unfinished
from ivsim.library.results import load_results
from ivsim.option_rules import past_options
from ivsim.report.figures import Figures
from ivsim.runs.checksums import SUMS, check, digest, read_checksums
from ivsim.runs.directory import RunDirectory
from ivsim.runs.result import NO_LEDGER, ledger_config, write_result
from ledger.build import LEDGER, build
from ledger.config import LedgerConfig
from ledger.fates import COLUMNS
from ledger.metrics import METRICS
from ledger.sources import CONSUMED, EMISSION_LOG, KAFKA_RECORDS
from ledger.values import KafkaCounts, compute
from ledger.window import read_window
from schemas.errors import Refusal
from schemas.without_pandas import without_pandas

METRICS_FILE: Final = "metrics.json"
PAGE: Final = "report.html"
# Without these there is nothing to make it of.
_NEEDED: Final = ("run.json", "clock.json", "ledger.parquet", "link.parquet", "connections.parquet")
# Counted in Kafka while it was there.
_OF_KAFKA: Final = ("twin_updates", "rejected_records", "unknown_records")


class Changed(NamedTuple):
    """A figure that came to something else than the run said."""

    name: str
    before: Any
    now: Any


def report_anew(
    directory: Path,
    *,
    ledger: bool = False,
    say: Callable[[str], None] = lambda _: None,
    drawn: Callable[[], Mapping[str, Figures]] | None = None,
) -> list[Changed]:
    """Rebuild a run's metrics and report, and return the figures that changed; Refusal names the file in the way.

    Args:
        directory: of the run.
        ledger: make the ledger anew first, from the emission log, the receive log and Kafka's records.
        say: is told of each step in a few words.
        drawn: returns the page's figures, where they are drawn already; not with `ledger`.
    """
    if is_study(directory):
        raise Refusal(f"{directory}: results of a study: `ivsim study report {directory}`")
    run = load_results(directory)
    if is_unfinished(directory):
        raise Refusal(f"{directory}: the run goes on, or was killed: `ivsim report` finishes it")
    sums = _checked(directory, {PAGE, LEDGER} if ledger else {PAGE})
    options = past_options(run.manifest["options"])  # may load a plugin, which may use pandas
    written = [METRICS_FILE, PAGE, *([LEDGER] if ledger else [])]
    rows: list[Changed] = []
    try:
        with (
            without_pandas(),
            tempfile.TemporaryDirectory(prefix=".report-", dir=directory) as unfinished,
        ):
            made = Path(unfinished)
            for path in directory.iterdir():
                if path.is_file() and path.name not in written:
                    (made / path.name).symlink_to(path.absolute())
            config = ledger_config(made, options)
            if ledger:
                _sources(directory, config)
                figures = with_ledger(run.metrics, built_ledger(config, say))
                rows = _changed_rows(directory / LEDGER, made / LEDGER)
            else:
                figures = _figures(config, run.metrics)
            say("working out the figures")
            metrics = write_result(RunDirectory(made), figures, drawn)
            for name in written:
                sums[name] = digest(made / name)
            new_sums = made / "sums"
            new_sums.write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)), encoding="utf-8")
            for source, target in (*((made / name, name) for name in written), (new_sums, SUMS)):
                source.replace(directory / target)
    except OSError as error:
        raise Refusal(f"{directory}: {error.strerror or error}") from None
    names = dict.fromkeys([*run.metrics, *metrics])
    return rows + [
        Changed(name, run.metrics.get(name), metrics.get(name))
        for name in names
        if run.metrics.get(name) != metrics.get(name)
    ]


def _sources(directory: Path, config: LedgerConfig) -> None:
    """Refuse a ledger that could say less than the one that is there."""
    behind = KAFKA_RECORDS if config.twins else CONSUMED[0]
    for name in (EMISSION_LOG, behind) if config.bridged else (EMISSION_LOG,):
        if not (directory / name).is_file():
            raise Refusal(f"{name}: missing; without it no ledger can be made")


def _changed_rows(before: Path, now: Path) -> list[Changed]:
    """Return how many rows of the ledger are others; nothing where none is."""
    differing = rows_changed(before, now)
    if differing == 0:
        return []
    return [Changed("rows of the ledger", None, "all" if differing is None else differing)]


def with_ledger(said: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run said of itself, but for what it said only because it had no ledger."""
    reasons = [
        one for one in (said.get("partial_reason") or "").split("; ") if one and not one.startswith(NO_LEDGER)
    ]
    known = {name: value for name, value in found.items() if name in METRICS or said.get(name) is None}
    return {**said, **known, "partial": bool(reasons), "partial_reason": "; ".join(reasons) or None}


def _checked(directory: Path, anew: Collection[str]) -> dict[str, str]:
    """Return the checksums of a run's files; Refusal unless each is as the run wrote it, but those that are made anew."""
    needed = [name for name in _NEEDED if name not in anew]
    for name in needed:
        if not (directory / name).is_file():
            raise Refusal(f"{directory / name}: missing; without it no report can be made")
    kept = [name for name in read_checksums(directory) if name not in anew]
    sums = check(directory, dict.fromkeys([*needed, METRICS_FILE, "manifest.json", *kept]))
    for name in kept:
        _readable(directory / name)
    return sums


def _readable(path: Path) -> None:
    """Refuse a table or an object that the run left broken."""
    try:
        if path.suffix == ".parquet":
            names = pq.read_schema(path).names
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # Arrow's are ValueErrors
        raise Refusal(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    if path.name == "ledger.parquet" and (absent := [name for name in COLUMNS if name not in names]):
        raise Refusal(f"{path}: column {absent[0]} is missing: of another version")


def _figures(config: LedgerConfig, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run said of itself, with METRICS from its ledger as it is; what Kafka held was counted by the run."""
    known = said.get("duplicates") is not None
    kafka = KafkaCounts(known, said.get("twin_updates"), said.get("rejected_records"))
    found = compute(config, kafka, read_window(config, []))
    found |= {name: said.get(name) for name in _OF_KAFKA}
    return {**said, **{name: found[name] for name in METRICS if name in said or found[name] is not None}}


def built_ledger(config: LedgerConfig, say: Callable[[str], None]) -> dict[str, Any]:
    """Build the ledger of a directory; return its figures. Refusal where there can be none."""
    try:
        return build(config, say)
    except (ArithmeticError, duckdb.Error) as error:
        raise Refusal(f"no ledger can be made: {next(iter(str(error).splitlines()), repr(error))}") from None


def rows_changed(before: Path, now: Path) -> int | None:
    """Return how many rows of two ledgers differ, in any column that both have; None where they are of other messages."""
    if not before.is_file():
        return None
    key = ["vehicle_id", "epoch", "sequence"]
    order = [(name, "ascending") for name in key]
    first, second = pq.read_table(before).sort_by(order), pq.read_table(now).sort_by(order)
    if not first.select(key).equals(second.select(key).cast(first.select(key).schema)):
        return None
    differ = pa.array([False] * first.num_rows, pa.bool_())
    for name in first.column_names:
        if name in second.column_names:
            same = pc.equal(first[name].cast(second[name].type), second[name])
            both_null = pc.and_(pc.is_null(first[name]), pc.is_null(second[name]))
            differ = pc.or_(differ, pc.invert(pc.or_(pc.fill_null(same, False), both_null)))
    return int(pc.sum(differ).as_py() or 0)
