"""The topics that a twin makes where nobody has made them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from ivsim.testbed.kafka_admin import delete_topics, topics_of
from schemas.errors import Refusal
from twin.config import TwinConfig
from twin.kafka_topics import ensure_topics, wanted
from twin.process import TwinProcess


@pytest.mark.kafka
def test_the_topics_that_it_makes_are_named_and_those_that_are_there_are_not(
    kafka: str, tmp_path: Path
) -> None:
    prefix = f"made{uuid.uuid4().hex[:8]}."
    config = TwinConfig(run_dir=str(tmp_path), bootstrap=kafka, topics_prefix=prefix)
    made = ensure_topics(config)
    assert made == sorted(topic.topic for topic in wanted(config)) == topics_of(kafka, prefix)
    assert ensure_topics(config) == []
    assert delete_topics(kafka, prefix) == {}


@pytest.mark.kafka
def test_a_twin_that_is_refused_its_checkpoint_makes_no_topic(kafka: str, tmp_path: Path) -> None:
    prefix = f"none{uuid.uuid4().hex[:8]}."
    config = TwinConfig(run_dir=str(tmp_path), bootstrap=kafka, topics_prefix=prefix)
    Path(config.checkpoint).mkdir()
    Path(config.checkpoint / "ivsim.json").write_text(json.dumps({"state_version": 0}))
    with pytest.raises(Refusal, match="state_version"):
        TwinProcess(config).open()
    assert topics_of(kafka, prefix) == []
