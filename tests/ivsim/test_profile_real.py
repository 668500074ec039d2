"""`ivsim profile check` against a real Kafka: what it would let a run do, and that nothing is made there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.profile_check import checks, options_of
from ivsim.testbed.kafka_admin import topics_of

pytestmark = pytest.mark.kafka


def found(folder: Path, text: str) -> dict[str, tuple[str | None, str | None]]:
    path = folder / "prod.toml"
    path.write_text(text)
    return {one.part: (one.there, one.missing) for one in checks(options_of(path))}


def test_kafka_is_asked_and_left_as_it_was(tmp_path: Path, kafka: str) -> None:
    good = found(tmp_path, f'[kafka]\nbootstrap = "{kafka}"\ntopic_prefix = "profiled."\npartitions = 3\n')
    assert good["Kafka"] == (f"{kafka} answers, in the clear", None)
    assert good["Kafka topics"] == (
        "topics profiled.* may be made: 3 partitions, replication 1, min.insync.replicas 1",
        None,
    )
    assert topics_of(kafka, "profiled.") == []


def test_copies_that_the_cluster_has_no_brokers_for(tmp_path: Path, kafka: str) -> None:
    there, missing = found(
        tmp_path,
        f'[kafka]\nbootstrap = "{kafka}"\ntopic_prefix = "profiled."\nreplication = 3\nmin_insync = 2\n',
    )["Kafka topics"]
    assert there is None
    assert missing is not None
    assert "replication factor" in missing.lower()
    assert topics_of(kafka, "profiled.") == []
