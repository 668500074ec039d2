"""A run's metrics and report, made of the files in its directory and of nothing else; whoever asks, they are the same.

`ledger.build` has written ledger.parquet and the figures of METRICS before. What is added here: the
link's certificate, each part of a mixed fleet, what security cost, the query, and the run's validity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.option_rules import past_options
from ivsim.options import RunOptions
from ivsim.report.figures import Figures
from ivsim.runs.directory import RunDirectory
from ivsim.runs.part_figures import part_figures
from ivsim.runs.query_figures import query_figures
from ivsim.runs.security_figures import security_figures
from ivsim.runs.validity import Cause, judge, of_causes, sender_lag_p99_ms
from ivsim.topologies import TOPOLOGIES
from ledger.config import LedgerConfig
from schemas.formats import OWN_FORMATS
from schemas.json_files import read_json, write_json
from simulator.links.proof import probe_times
from simulator.links.proof.after_run import probe_checks
from simulator.links.proof.certificate import certificate, unplayed
from simulator.links.proof.checks import Check, Verdict
from simulator.links.row_file import RowFile
from simulator.links.step_log import SCHEMA

NO_LEDGER: Final = "there is no ledger"
_COLUMNS: Final = (*SCHEMA.names, *probe_times.SCHEMA.names)
_OF_SENDERS: Final = frozenset({"sender_died", "agent_lost"})


@dataclass(frozen=True)
class LinkRows:
    """What was asked of the link, counted and probed: the rows of link.parquet but those of the capture alone."""

    path: Path

    def __iter__(self) -> Iterator[pa.Table]:
        for rows in RowFile(self.path, _COLUMNS):
            yield rows.filter(pc.is_valid(rows["update_ms"]))


def ledger_config(directory: Path, options: RunOptions) -> LedgerConfig:
    """Return what the ledger of a run in this directory is told, whoever writes it."""
    return LedgerConfig(
        run_dir=str(directory.absolute()),
        topology=TOPOLOGIES[options.topology].accounting,
        more_formats=() if options.format in OWN_FORMATS else (options.format,),
        loss_timeout_s=options.loss_timeout_s,
        future_tolerance_s=options.future_tolerance_s,
    )


def write_result(
    directory: RunDirectory,
    figures: Mapping[str, Any],
    drawn: Callable[[], Mapping[str, Figures]] | None = None,
) -> dict[str, Any]:
    """Write metrics.json and report.html; return what metrics.json holds.

    Args:
        directory: with the tables of `ivsim.runs.snapshot`, and ledger.parquet where there is one.
        figures: METRICS, `partial` and `partial_reason` as the ledger said them, or as an earlier result did with
            all else that it held: it stays where the files do not say it.
        drawn: returns the page's figures, where they are drawn already; None draws them here.
    """
    from ivsim.report.page import write_page  # noqa: PLC0415 - templates: no first message waits for them

    manifest, run = read_json(directory.manifest), read_json(directory.snapshot)
    options = past_options(manifest["options"])
    metrics = {**figures, "run": manifest["run"]}
    if "problems" in run:  # a result of this version: all of it is in its files
        metrics |= _partial(figures, run["problems"], ledger=directory.ledger.is_file())
        metrics |= _of_link(directory, manifest["link"]["name"], run["replay"])
        metrics |= {name: run[name] for name in ("agents", "live", "platform", "shares") if run.get(name)}
        metrics["security"] = security_figures(
            directory.path, security=options.security, senders=run["senders"], gateways=run["gateways"]
        )
    if options.mix is not None:
        metrics["parts"] = part_figures(
            directory.ledger,
            directory.link,
            options.parts,
            topology=TOPOLOGIES[options.topology].accounting,
            start_at_ns=run["start_at_ns"],
            warmup_s=options.warmup_s,
        )
    if options.query != "none":
        metrics["query"] = query_figures(directory.path, options)
    metrics["validity"] = _validity(directory, run, metrics)
    write_json(directory.metrics, metrics)
    write_page(directory.path, None if drawn is None else drawn())
    return metrics


def _partial(figures: Mapping[str, Any], problems: Sequence[str], *, ledger: bool) -> dict[str, Any]:
    """Return whether the result is partial, and why: what the ledger could not read, and what went wrong.

    The ledger was told some of the problems itself.
    """
    known = figures.get("partial_reason") or ""
    lines = [line for line in problems if line not in known and not (ledger and line.startswith(NO_LEDGER))]
    reason = "; ".join([*filter(None, [known]), *lines])
    return {"partial": bool(reason), "partial_reason": reason or None}


def _of_link(directory: RunDirectory, link: str, replay: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the replay said of itself, and the certificate."""
    rows = LinkRows(directory.link)
    proven = certificate(link, rows, replay, _probed(directory)) if replay is not None else unplayed(rows)
    return {"replay": replay, "certificate": proven}


def _probed(directory: RunDirectory) -> list[Check]:
    """Return the checks of the seconds that were driven through the link once more behind the run."""
    if not directory.link_proof.is_file():
        return []
    proof = read_json(directory.link_proof)
    if (failure := proof.get("failure")) is not None:
        verdict: Verdict = "off" if proof.get("asked_for", True) else "unproven"
        return [Check("saturating probe", "both", "to end", failure, "", verdict)]
    return probe_checks(proof["seconds"])


def write_proof(
    directory: RunDirectory,
    traffic_s: float,
    seconds: Sequence[Mapping[str, Any]],
    failure: str | None = None,
    *,
    asked_for: bool = True,
) -> None:
    """Write link_proof.json: what each second came to that was driven through the link once more, or why none was.

    `traffic_s`: length of each kind of traffic. `asked_for`: a failure is one of the link that the run was to prove.
    """
    more = {} if failure is None else {"failure": failure, "asked_for": asked_for}
    write_json(directory.link_proof, {"traffic_s": traffic_s, "seconds": list(seconds), **more})


def _validity(directory: RunDirectory, run: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    deaths, lost = run.get("deaths", {}), run.get("lost_senders", [])
    judged = judge(
        metrics,
        sender_lag_p99_ms=sender_lag_p99_ms(directory.ledger),
        capture_drops=_capture_drops(directory.path),
        vehicle_drops=sum(sender.get("datagrams_unsent") or 0 for sender in run.get("senders", [])),
        gateway_drops=run.get("gateway_drops"),
        refused_gateways=run.get("refused_gateways", []),
        twin_reopened=run.get("twin_reopened", []),
        dead_senders=[words for name, words in deaths.items() if name not in lost],
        lost_senders=[words for name, words in deaths.items() if name in lost],
    )
    if "deaths" in run:
        return judged.as_dict()
    # An earlier version's run.json does not say how a sender ended.
    said = (metrics.get("validity") or {}).get("causes", [])
    died = [Cause(**cause) for cause in said if cause["name"] in _OF_SENDERS]
    return of_causes((*judged.causes, *died)).as_dict()


def _capture_drops(directory: Path) -> int | None:
    for name in ("wire_categories.parquet", "wire.parquet"):
        path = directory / name
        drops = (pq.read_schema(path).metadata or {}).get(b"kernel_drops") if path.is_file() else None
        if drops is not None:
            return int(drops)
    return None
