"""What a run says before it starts of an object store that is none, and of a history that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.option_rules import run_options
from ivsim.runs.preflight import check_store
from ivsim.testbed.process import hold_port
from schemas.errors import Refusal

PLACE = "s3a://bucket/twins"


def test_a_store_that_does_not_answer_is_named() -> None:
    with hold_port() as held:
        endpoint = f"http://127.0.0.1:{held.getsockname()[1]}"
        options = run_options(spark_checkpoint=PLACE, s3_endpoint=endpoint)
        with pytest.raises(Refusal, match=f"^{PLACE}: no answer from {endpoint}: Connection refused$"):
            check_store(options)


def test_a_profile_of_keys_that_spark_does_not_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_PROFILE", "fleet")
    with pytest.raises(
        Refusal, match=f"^--spark-checkpoint {PLACE}: Spark reads no AWS_PROFILE: set AWS_ACCESS_KEY_ID"
    ):
        check_store(run_options(spark_checkpoint=PLACE, s3_endpoint="http://127.0.0.1:9"))


def test_a_history_has_a_directory_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        with pytest.raises(Refusal, match=f"^--history {tmp_path / name}: {reason}$"):
            check_store(run_options(history=str(tmp_path / name)))
    check_store(run_options(history=str(tmp_path / "new" / "fleet")))
    assert list((tmp_path / "new" / "fleet").iterdir()) == []
