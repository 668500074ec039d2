"""A run's processes by name: what a restart leaves behind."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from ivsim.runs.children import Children, ChildSpec
from ivsim.testbed.child import KEPT_EVENTS
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord

SPEAKER = """
import json, sys
for number in range(100):
    print(json.dumps({"event": "progress", "number": number}))
print(json.dumps({"event": "ready"}), flush=True)
sys.stdin.read()
"""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChildSpec:
    (tmp_path / "speaker_of_events.py").write_text(SPEAKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return ChildSpec("speaker", ("speaker_of_events",), {})


def test_restarts_leave_no_descriptor_behind(tmp_path: Path, speaker: ChildSpec) -> None:
    with RunRecord(f"p{uuid.uuid4().hex[:8]}", tmp_path) as record, ExitStack() as stack:
        children = Children(record, tmp_path, stack)
        children.start(speaker).wait_for("ready", 20.0)
        before = descriptors()
        for _ in range(3):
            children["speaker"].kill()
            children.restart("speaker")
        assert descriptors() == before
        last = children["speaker"]
        assert last.running()
    assert not last.running()


def test_of_what_nobody_waits_for_the_newest_is_kept(tmp_path: Path, speaker: ChildSpec) -> None:
    with RunRecord(f"p{uuid.uuid4().hex[:8]}", tmp_path) as record, ExitStack() as stack:
        child = Children(record, tmp_path, stack).start(speaker)
        child.wait_for("ready", 20.0)
        kept = [child.wait_for("progress", 1.0)["number"] for _ in range(KEPT_EVENTS)]
        assert kept == list(range(100 - KEPT_EVENTS, 100))
        with pytest.raises(NotReady):
            child.wait_for("progress", 0.01)
