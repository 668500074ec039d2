"""Results of shares in an object store: put there whole, taken from there, and joined as those of this machine are."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ivsim.library.join import join
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.checksums import check
from ivsim.runs.preflight import check_store
from ivsim.runs.stored_result import folder_of, put, refuse_taken, take
from ivsim.testbed.paths import ROOT
from schemas.errors import Refusal
from schemas.json_files import read_json
from tests.ivsim.test_join import ASKED, START_AT, result, rows
from tests.store_server import BUCKET, StoreServer, store_with_keys
from twin.place import Place


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_with_keys(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("shares")
    return [result(base / f"own-{number}", share=f"{number}/2", start_at=START_AT) for number in (1, 2)]


@pytest.fixture
def place() -> str:
    return f"s3a://{BUCKET}/load-{uuid.uuid4().hex[:8]}"


def asked(store: StoreServer, place: str, number: int, **more: Any) -> RunOptions:
    told = {
        "share": f"{number}/2",
        "start_at": START_AT,
        "share_results": place,
        "s3_endpoint": store.endpoint,
    }
    return run_options(**ASKED | told | more)


def stored(directory: Path, options: RunOptions) -> None:
    folder = folder_of(options)
    assert folder == f"{options.share_results}/share-{(options.share or '')[0]}"
    put(directory, folder, options)


def report(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "report", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_what_shares_have_put_is_joined_like_their_own_directories(
    store: StoreServer, place: str, shares: list[Path], tmp_path: Path
) -> None:
    for number, directory in enumerate(shares, 1):
        options = asked(store, place, number)
        check_store(options)
        refuse_taken(options)
        stored(directory, options)
    store.client().put_object(
        Bucket=BUCKET, Key=f"{place.removeprefix(f's3a://{BUCKET}/')}/notes.txt", Body=b""
    )
    done = report(place, "--s3-endpoint", store.endpoint, "--output", str(tmp_path / "whole"))
    assert done.returncode == 0, done.stderr
    assert "2 shares" in done.stdout
    own = join(shares, tmp_path / "own").path
    assert rows(tmp_path / "whole") == rows(own)
    assert read_json(tmp_path / "whole/metrics.json")["delivered"] == 28
    check(tmp_path / "whole")


def test_a_share_that_is_there_already_is_refused_before_anything_starts(
    store: StoreServer, place: str, shares: list[Path]
) -> None:
    stored(shares[0], asked(store, place, 1))
    with pytest.raises(
        Refusal, match=f"^--share-results {place}: {place}/share-1 is there already; name a new place$"
    ):
        refuse_taken(asked(store, place, 1))
    refuse_taken(asked(store, place, 2))
    refuse_taken(run_options(**ASKED | {"share": "1/2", "start_at": START_AT}))


def test_a_result_that_was_changed_in_the_store_or_is_not_whole_is_named_by_its_place(
    store: StoreServer, place: str, shares: list[Path], tmp_path: Path
) -> None:
    for number, directory in enumerate(shares, 1):
        stored(directory, asked(store, place, number))
    below = place.removeprefix(f"s3a://{BUCKET}/")
    words = (place, "--s3-endpoint", store.endpoint, "--output", str(tmp_path / "whole"))
    store.client().put_object(Bucket=BUCKET, Key=f"{below}/share-2/run.json", Body=b"{}")
    changed = report(*words)
    store.client().delete_object(Bucket=BUCKET, Key=f"{below}/share-2/SHA256SUMS")
    not_whole = report(*words)
    assert (changed.returncode, not_whole.returncode) == (2, 2)
    assert f"ivsim: {place}/share-2/run.json: changed since the run wrote it" in changed.stderr
    assert f"ivsim: {place}/share-2/SHA256SUMS: missing" in not_whole.stderr
    assert not (tmp_path / "whole").exists()


def test_what_is_not_there_is_named(
    store: StoreServer, place: str, shares: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=f"^{place}: no result of a share there"):
        take(Place(place), store.endpoint, tmp_path)
    with pytest.raises(Refusal, match=r"^s3a://nobodys/load: no bucket nobodys at "):
        check_store(asked(store, "s3a://nobodys/load", 1))
    with pytest.raises(Refusal, match=r"^s3a://nobodys/load/share-1: .*bucket"):
        stored(shares[0], asked(store, "s3a://nobodys/load", 1))


def test_a_share_that_the_store_has_and_one_of_this_machine_are_joined(
    store: StoreServer, place: str, shares: list[Path], tmp_path: Path
) -> None:
    stored(shares[0], asked(store, place, 1))
    done = report(place, str(shares[1]), "--s3-endpoint", store.endpoint, "--output", str(tmp_path / "whole"))
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "whole/metrics.json")["delivered"] == 28


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["s3a://b"], "s3a://b: write a directory, or s3a://BUCKET/PATH"),
        (["https://h/x"], "https://h/x: write a directory, or s3a://BUCKET/PATH"),
        (["results/x", "--s3-endpoint", "http://h:1"], "--s3-endpoint: needs results at s3a://BUCKET/PATH"),
        (["s3a://b/x", "--ledger"], "--ledger: of one run; that of joined shares is made anew in any case"),
    ],
)
def test_words_that_name_no_place_are_refused(words: list[str], says: str) -> None:
    done = report(*words)
    assert (done.returncode, done.stderr) == (2, f"ivsim: {says}\n")
