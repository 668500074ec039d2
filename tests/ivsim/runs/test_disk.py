"""What a run needs of its disk, and what is said when it is not there; no disk is filled."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ivsim.option_rules import run_options
from ivsim.runs import disk
from ivsim.runs.disk import MB, DiskNearlyFull, DiskWatch, check_room, needed_bytes, ran_out
from schemas.errors import Refusal

OPTIONS = run_options(vehicles=200, interval_s=0.5, duration_s=30.0)


class Usage(NamedTuple):
    free: int
    total: int = 1_000 * MB


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def say(*of_each: tuple[Path, int], everywhere: int = 0) -> None:
        known = dict(of_each)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(known.get(path, everywhere)))

    return say


def test_what_a_run_needs_covers_what_it_has_written() -> None:
    # 12,000 messages over MQTT as JSON: 103 MB at most, results and scratch together.
    assert 103 * MB < needed_bytes(OPTIONS) < 1.5 * 103 * MB
    longer = run_options(vehicles=200, interval_s=0.5, duration_s=60.0)
    assert needed_bytes(longer) - needed_bytes(OPTIONS) == 12_000 * 4_100


def test_a_run_that_would_not_fit_is_refused_with_both_figures(
    free: Callable[..., None], tmp_path: Path
) -> None:
    output = tmp_path / "not" / "there"
    free((tmp_path, 100 * MB))
    with pytest.raises(
        Refusal,
        match=rf"^--output {output}: 100 MB free on its disk, about 17\d MB needed for 12,000 messages"
        r" \(400/s of all vehicles\): free some, ",
    ):
        check_room(output, OPTIONS)
    free((tmp_path, 200 * MB))
    check_room(output, OPTIONS)


def test_a_run_ends_while_there_is_room_for_its_ledger(free: Callable[..., None]) -> None:
    results, log = Path("/results"), Path("/log")
    watch = DiskWatch((results, log), OPTIONS)
    free((results, 70 * MB), (log, 70 * MB))
    watch.check()
    free((results, 70 * MB), (log, 66 * MB))
    with pytest.raises(DiskNearlyFull, match=r"^/log: its disk is nearly full \(66 MB free, 66 MB are kept"):
        watch.check()


def test_a_full_disk_is_named_and_one_with_room_is_not(free: Callable[..., None], tmp_path: Path) -> None:
    watch = DiskWatch((tmp_path, tmp_path / "removed"), OPTIONS)
    free(everywhere=disk.FULL_BYTES)
    assert watch.full() is None
    free((tmp_path, disk.FULL_BYTES - 1))
    assert (
        watch.full()
        == f"{tmp_path}: its disk is full: what the run has written stays; free some, and run again"
    )


@pytest.mark.parametrize(
    ("number", "is_full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (None, False)]
)
def test_only_the_systems_own_words_make_a_disk_full(number: int | None, is_full: bool) -> None:
    error = OSError(number, "said") if number is not None else OSError("said")
    assert ran_out(error) is is_full


def test_the_disk_of_a_history_is_watched_too(free: Callable[..., None], tmp_path: Path) -> None:
    history = tmp_path / "fleet"
    for place, watched in ((str(history), True), ("s3a://bucket/fleet", False)):
        watch = DiskWatch((Path("/results"),), OPTIONS.model_copy(update={"history": place}))
        free((Path("/results"), 70 * MB), (history, 66 * MB))
        if watched:
            with pytest.raises(DiskNearlyFull, match=f"^{history}: its disk is nearly full"):
                watch.check()
        else:
            watch.check()
