"""A finished run's ledger once more, from the logs and Kafka's records that the run has kept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.topologies import TOPOLOGIES
from ledger.build import ledger_limit_s
from ledger.sources import EMISSION_LOG
from schemas.errors import Refusal
from schemas.formats import OWN_FORMATS

LEDGER: Final = "ledger.parquet"


def write_ledger_anew(
    directory: Path, options: Mapping[str, Any], work: Path, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Write ledger.parquet and metrics.json into a directory that has a run's other files; return what metrics.json holds.

    Args:
        directory: where the files are, and where the two go.
        options: of the run.
        work: an empty directory for what the job needs meanwhile.
        say: is told of each step in a few words.

    Refusal with the job's own words where there can be no ledger. Without Kafka's records the ledger is partial.
    """
    config = work.absolute() / "ledger.json"  # the job works elsewhere
    config.write_text(json.dumps(_config(directory, options)))
    limit_s = ledger_limit_s(pq.read_metadata(directory / EMISSION_LOG).num_rows)
    job = subprocess.Popen(
        [sys.executable, "-m", "ledger", str(config)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=work,
    )  # fmt: skip
    with job:
        try:
            assert job.stdout is not None
            for line in job.stdout:
                _tell(line, say)
            _, said = job.communicate(timeout=limit_s)
        except BaseException:
            job.kill()
            raise
    if job.returncode != 0:
        raise Refusal(f"no ledger can be made: {(said.strip().splitlines() or ['the job has ended'])[-1]}")
    found: dict[str, Any] = json.loads((directory / "metrics.json").read_text())
    return found


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


def _config(directory: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_dir": str(directory.absolute()),
        "topology": TOPOLOGIES[options["topology"]].accounting,
        "more_formats": [] if options["format"] in OWN_FORMATS else [options["format"]],
        "loss_timeout_s": float(options["loss_timeout_s"]),
        "future_tolerance_s": float(options["future_tolerance_s"]),
    }


def _tell(line: str, say: Callable[[str], None]) -> None:
    try:
        event = json.loads(line)
    except ValueError:
        return
    if isinstance(event, dict) and event.get("event") == "step":
        say(str(event.get("words")))
