"""What a mode promises when a part fails, checked on the ledger's rows; pure, it starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateways.protocols.base import Mode

Row = Mapping[str, Any]
IN_TWIN = ("delivered", "late")
FATES = (*IN_TWIN, "lost", "unsent")


@dataclass
class Judgement:
    """Counts of one case and the promises it broke, one line each."""

    counts: dict[str, int] = field(default_factory=dict)
    lost_by_hop: dict[str, int] = field(default_factory=dict)
    acknowledged_and_lost: int = 0
    broken: list[str] = field(default_factory=list)


def keeps_acknowledged(protocol: str, mode: Mode, fault: str) -> bool:
    """Say whether every acknowledged message must be in Kafka after this fault.

    A mosquitto that is killed is the exception: its persistence is periodic (mosquitto.conf,
    `autosave_interval`), so what it acknowledged since the last save is gone, and the ledger says so.
    """
    return mode.guarantee != "at_most_once" and not (protocol == "mqtt" and fault == "broker-kill")


def judge(rows: Iterable[Row], protocol: str, mode: Mode, fault: str, twin_distinct: int) -> Judgement:
    """Return what became of a case's messages and which promises it broke.

    Args:
        rows: the ledger's rows, one per message due.
        protocol: its name.
        mode: the mode that was run.
        fault: the fault in the middle of it.
        twin_distinct: distinct messages over all twins, by their own counters at the end.
    """
    ledger = list(rows)
    judgement = Judgement({fate: sum(row["fate"] == fate for row in ledger) for fate in FATES})
    judgement.counts["due"] = len(ledger)
    _closed(ledger, judgement)
    _acknowledged(ledger, judgement, keeps_acknowledged(protocol, mode, fault))
    in_twin = sum(judgement.counts[fate] for fate in IN_TWIN)
    if twin_distinct != in_twin:
        judgement.broken.append(f"the twins count {twin_distinct} distinct messages, the ledger {in_twin}")
    return judgement


def _closed(ledger: list[Row], judgement: Judgement) -> None:
    if sum(judgement.counts[fate] for fate in FATES) != len(ledger):
        judgement.broken.append("due = delivered + late + lost + unsent does not hold")
    for row in ledger:
        if row["fate"] == "lost":
            hop = row["hop"]
            if hop is None:
                judgement.broken.append(f"{row['vehicle_id']} {row['sequence']}: lost without a hop")
            else:
                judgement.lost_by_hop[hop] = judgement.lost_by_hop.get(hop, 0) + 1


def _acknowledged(ledger: list[Row], judgement: Judgement, promised: bool) -> None:
    missing = [
        row for row in ledger if row["acknowledged_at_ns"] is not None and row["appended_at_ns"] is None
    ]
    judgement.acknowledged_and_lost = len(missing)
    if promised and missing:
        first = missing[0]
        judgement.broken.append(
            f"{len(missing)} acknowledged messages are not in Kafka, the first "
            f"{first['vehicle_id']} {first['sequence']}, last seen at {first['hop']}"
        )
