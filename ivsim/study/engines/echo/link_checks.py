"""What the link was asked and what it did, over all sessions of a study, as a section of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from ivsim.study.clusters import share_of_sums
from ivsim.study.markdown import table
from ivsim.study.sealed import read_table
from ivsim.study.summary import scaled, written
from schemas.json_files import read_json

HEAD: Final = (
    "direction",
    "loss asked",
    "packets",
    "loss seen by the kernel, %",
    "dropped by a full queue",
    "verdict",
)
NOTE: Final = (
    "Loss is counted where netem drops, over all vehicles and sessions; `pass` when the 95 % interval holds the ratio asked"
    " (so that one in twenty is off by chance). The unit of the interval is a vehicle's link in a session: packets of one"
    " link are lost together where loss comes in bursts."
)
UNIT: Final = "link of a vehicle in a session"
# Each link's packets lost, packets, and packets dropped by a full queue.
Links = list[tuple[float, float, float]]


def sections(study: Path) -> list[str]:
    """Return the section, none when no session was kept."""
    abouts, links = [], dict[tuple[str, float], Links]()
    for directory in sorted((study / "sessions").glob("*")):
        abouts.append(read_json(directory / "session.json"))
        _add(links, directory / "link.parquet")
    if not abouts:
        return []
    rows = [_row(way, loss, found) for (way, loss), found in sorted(links.items())]
    loads = [float(about["load_average"]) for about in abouts if "load_average" in about]
    late = [float(about["replay"].get("applied_late_max_ms", 0.0)) for about in abouts]
    if loads:
        spread = f"{min(loads):.0f} to {max(loads):.0f}"
        rows.append(["machine", "load", f"{len(loads)} sessions", spread, "", ""])
    rows.append(["both", "replay", f"{len(late)} sessions", f"latest step {max(late):.0f} ms late", "", ""])
    return [f"## What the links did\n\n{table(HEAD, rows)}\n\n{NOTE}"]


def _add(links: dict[tuple[str, float], Links], path: Path) -> None:
    """Add the counts of a session's links, by direction and loss asked."""
    columns = [
        "second",
        "vehicle_id",
        "direction",
        "asked_loss_ratio",
        "qdisc_packets",
        "drops",
        "queue_drops",
    ]
    log = read_table(path, columns).to_pandas()
    log = log[(log["second"] >= 0) & log["qdisc_packets"].notna()]
    log["lost"] = log["drops"] - log["queue_drops"]
    summed = log.groupby(["direction", "asked_loss_ratio", "vehicle_id"])[
        ["lost", "qdisc_packets", "queue_drops"]
    ].sum()
    for (way, loss, _), (lost, passed, queue) in zip(summed.index, summed.to_numpy(np.float64), strict=True):
        links.setdefault((str(way), float(loss)), []).append((lost, passed + lost, queue))


def _row(way: str, loss: float, found: Links) -> list[str]:
    lost, packets, queue = np.array(found).T
    share = share_of_sums(lost, packets, UNIT)
    inside = share.low is not None and share.high is not None and share.low <= loss <= share.high
    seen = written(scaled(share, "ratio")[0])
    counts = [f"{packets.sum():,.0f}", seen, f"{queue.sum():,.0f}"]
    return [way, f"{loss:.0%}", *counts, "pass" if inside else "off"]
