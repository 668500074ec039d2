"""Shares of a fleet whose results go into an object store at their end, one of which has gone meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from end_to_end_runs import Runs

from ivsim.library.join import join
from ivsim.runs.checksums import check
from ivsim.runs.stored_result import take
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.registry import RunRecord
from tests.store_server import BUCKET, store_with_keys
from twin.place import Place

pytestmark = [pytest.mark.broker, pytest.mark.netns]

PLACE = f"s3a://{BUCKET}/load"
# Until both runs are ready, on two cores with other work.
AHEAD_S = 30
# Records of 32 bytes: the start, two events of each of two vehicles' connections, and a message.
FIRST_EMITTED = 32 * 6


def test_a_share_puts_its_result_into_the_store_and_keeps_it_where_that_has_gone(
    runs: Runs, run_record: RunRecord, tmp_path: Path
) -> None:
    start_at = (datetime.now(UTC) + timedelta(seconds=AHEAD_S)).replace(microsecond=0)
    with MosquittoServer(run_record, name="theirs") as broker, store_with_keys(tmp_path / "kept") as store:
        words = (
            f"--start-at {start_at.isoformat()} --target mqtt://127.0.0.1:{broker.port} --topology peer --link direct"
            f" --vehicles 4 --duration 3 --loss-timeout 5 --share-results {PLACE}"
        ).split()
        with store_with_keys(tmp_path / "gone") as gone:
            first = runs.start("share-1", *words, "--share", "1/2", "--s3-endpoint", store.endpoint)
            second = runs.start("share-2", *words, "--share", "2/2", "--s3-endpoint", gone.endpoint)
            log = second.directory / "emissions.events"
            second.wait_for(lambda: log.exists() and log.stat().st_size >= FIRST_EMITTED)
        kept, left = first.finish(), second.finish()
        assert kept.code == 0, kept.stderr
        assert f"the result is in {PLACE}/share-1, too" in kept.stderr
        assert left.code == 1, left.stderr
        (line,) = [line for line in left.stderr.splitlines() if line.startswith("ivsim: ")]
        assert line.startswith(f"ivsim: {PLACE}/share-2: ")
        assert line.endswith(f"; the result is in {left.directory} alone")
        check(left.directory)
        (below := tmp_path / "taken").mkdir()
        (stored,) = take(Place(PLACE), store.endpoint, below)
    assert check(stored) == check(kept.directory)
    whole = join([stored, left.directory], tmp_path / "whole")
    assert kept.metrics["delivered"] == left.metrics["delivered"] == 6
    assert whole.metrics.is_file()
