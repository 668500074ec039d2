"""One measurement from the command line: its directory, its files, and what it ends with."""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted, interruptible, unhurried
from ivsim.runs.outcome import EXIT_FAILED
from ivsim.runs.validity import EXIT_INVALID
from ivsim.runs.versions import environment
from ivsim.study.engines.pipe.idioms import packages
from ivsim.study.engines.pipe.measured import Measured, Stopped, stopped_words, when_all_was_sent
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import PipeOptions, link_options
from ivsim.study.engines.pipe.page import write_page
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.preflight import check_records
from ivsim.study.engines.pipe.session import (
    DECISIONS,
    LINK,
    SAMPLES,
    Platforms,
    write_decisions,
    write_link,
    write_samples,
)
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.json_files import write_json
from simulator.links import LinkError, choose
from simulator.links.privileges import ensure_privileges

SCHEMA: Final = 1


@dataclass
class PipeOutcome:
    """What one measurement ended with.

    Attributes:
        directory: of the results.
        metrics: as metrics.json has them; empty where it broke off.
        error: why it broke off, or what stopped it.
    """

    directory: Path
    metrics: dict[str, Any] = field(default_factory=dict)
    report: Path | None = None
    exit_code: int = 0
    error: str | None = None


def run(options: PipeOptions, output: Path | None = None, display: Display | None = None) -> PipeOutcome:
    """Measure once and write manifest.json, metrics.json, samples.parquet and report.html.

    Refusal when it cannot be measured here, or the directory is not empty; nothing was started then.

    Args:
        options: what is measured.
        output: directory of the result; None is the default.
        display: shows how far it is; None shows nothing.
    """
    lack = platform_named(options.platform).missing()
    if lack is not None:
        raise Refusal(lack)
    largest = check_records(options)
    if (asked := link_options(options)) is not None:
        choose(asked.link)  # Refusal where there can be none
        ensure_privileges()
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-pipe-{options.platform}-{secrets.token_hex(3)}"
    path = new_directory(output if output is not None else Path("results") / name)
    outcome = PipeOutcome(path)
    work = path / "work"
    found: Measured | None = None
    manifest = _manifest(options, name, largest)
    with interruptible():
        try:
            with (
                display or Display(quiet=True) as shown,
                RunRecord(name, path) as record,
                record.scratch_within(work),
                Platforms(record, work) as platforms,
            ):
                found = _measured(options, platforms, shown, name)
        except Interrupted as interrupted:
            outcome.exit_code, outcome.error = 128 + interrupted.number, f"stopped by {interrupted}"
            if found is not None and found.stopped is None:  # while the platform was closed
                found.stopped = Stopped(interrupted.number, options.duration_s)
        except (ProcessDied, NotReady, LinkError) as error:
            outcome.exit_code, outcome.error = EXIT_FAILED, str(error)
        with unhurried() as late:
            _write(found, outcome, manifest)
        if late.number is not None and outcome.error is None:
            outcome.exit_code, outcome.error = 128 + late.number, when_all_was_sent(late.number)
    return outcome


def _write(found: Measured | None, outcome: PipeOutcome, manifest: dict[str, Any]) -> None:
    """Write all files of what was measured, of nothing the manifest alone."""
    if found is not None and outcome.exit_code != EXIT_FAILED:
        _kept(found, outcome, manifest)
        if found.stopped is not None:
            outcome.exit_code, outcome.error = 128 + found.stopped.number, stopped_words(found)
    manifest["ended_at_ns"], manifest["load_after"] = time.time_ns(), os.getloadavg()
    manifest["error"] = outcome.error
    write_json(outcome.directory / "manifest.json", manifest)
    if outcome.metrics:
        outcome.report = write_page(outcome.directory)
        if outcome.error is None and outcome.metrics["validity"]["verdict"] == "invalid":
            outcome.exit_code = EXIT_INVALID


def new_directory(output: Path) -> Path:
    """Return the directory of a result, made where it was not; Refusal when it has files, or cannot have any."""
    path = output.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"--output {path}: {error.strerror}") from None
    if any(path.iterdir()):
        raise Refusal(f"--output {path}: not empty; name a new directory")
    if not os.access(path, os.W_OK):
        raise Refusal(f"--output {path}: cannot be written")
    return path


def _measured(options: PipeOptions, platforms: Platforms, display: Display, name: str) -> Measured:
    """Measure and show how far it is."""
    display.phase(f"{name}: starting {options.platform}")
    platforms.open(options)
    said = ""

    def tell(phase: str, over_s: float, sent: int, received: int) -> None:
        nonlocal said
        if phase != said:
            said = phase
            display.phase(f"{name}: {phase}")
        share = min(1.0, max(0.0, over_s / options.duration_s))
        display.progress(share, max(0.0, options.duration_s - over_s), {"sent": sent, "received": received})

    return platforms.measure(options, tell, accounts_stopped=True)


def _manifest(options: PipeOptions, name: str, largest: int) -> dict[str, Any]:
    found = {
        "schema": SCHEMA,
        "run": name,
        "kind": "pipe",
        "arguments": sys.argv[1:],
        "options": options.model_dump(mode="json"),
        "largest_payload_bytes": largest,
        "started_at_ns": time.time_ns(),
        "load_before": os.getloadavg(),
        **environment(),
    }
    own = {*packages().values(), *platform_named(options.platform).packages}
    found["versions"] |= {package: metadata.version(package) for package in sorted(own)}
    return found


def _kept(found: Measured, outcome: PipeOutcome, manifest: dict[str, Any]) -> None:
    """Write figures and samples, and what the clients said."""
    outcome.metrics = figures_of(found)
    write_json(outcome.directory / "metrics.json", outcome.metrics)
    write_samples(found, outcome.directory / SAMPLES)
    write_decisions(found, outcome.directory / DECISIONS)
    if found.crossed is not None:
        write_link(found, outcome.directory / LINK)
        manifest["link"] = {"name": found.crossed.name, **found.crossed.properties}
    ledger = found.ledger
    manifest |= {
        "start_at_ns": found.start_at_ns,
        "producers": found.producers,
        "consumers": found.consumers,
        "platform_cpu_s": found.platform_cpu_s,
        "killed": None if found.killed is None else asdict(found.killed),
        "partitions": [
            {
                "partition": one,
                "arrivals": ledger.arrivals[one],
                "duplicates": ledger.duplicates[one],
                "reordered": ledger.reordered[one],
            }
            for one in ledger.arrivals
        ],
    }
