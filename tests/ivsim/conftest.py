"""What tests of pages share."""

from __future__ import annotations

import pytest

from ivsim.report.drawing import Drawing


@pytest.fixture
def blank_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts are made and not drawn, which takes most of a page's time; for tests of what else a page says."""
    monkeypatch.setattr(Drawing, "svg", lambda _chart: '<svg role="img"></svg>')
