"""The campaign that docs/protocols.md tells of is the one whose rows lie beside it."""

from __future__ import annotations

from pathlib import Path

from ivsim.chaos.campaign import Row
from ivsim.chaos.campaign_table import markdown
from ivsim.testbed.paths import ROOT

ROWS = [Row.of_line(line) for line in (ROOT / "docs" / "campaign.jsonl").read_text().splitlines()]


def test_the_tables_are_made_from_the_rows() -> None:
    assert sum(len(row.injected) for row in ROWS) >= 1_000
    assert markdown(ROWS, Path("DIR")) in (ROOT / "docs" / "protocols.md").read_text()


def test_no_acknowledged_message_is_lost_that_no_save_explains() -> None:
    assert [row.name for row in ROWS if row.judgement.broken] == []
    kept = [row for row in ROWS if row.judgement.promise in {"keeps", "answered"}]
    assert sum(row.acknowledged for row in kept) > 100_000
    assert {hop: lost for row in kept for hop, lost in row.acknowledged_lost.items() if lost} == {}
    # A mode whose broker saves now and then loses what came since its last save, or while nobody was subscribed.
    shared = [row for row in ROWS if row.judgement.promise not in {"keeps", "answered", "may lose"}]
    for row in shared:
        explained = sum(end["unsaved_lost"] + end["unshared_lost"] for end in row.broker_ends)
        assert sum(row.acknowledged_lost.values()) == explained, row.name
