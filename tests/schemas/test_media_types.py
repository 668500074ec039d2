"""Media types: one format each, whose bytes a gateway may find beside others."""

from __future__ import annotations

import pytest

from schemas.formats import FORMATS, OWN_FORMATS
from schemas.formats.media_types import formats_by_media_type, plain


@pytest.mark.parametrize("own", OWN_FORMATS)
def test_every_format_is_found_by_its_own_media_type_unless_its_sequences_wrap(own: str) -> None:
    found = {name: one.name for name, one in formats_by_media_type(own).items()}
    for name in OWN_FORMATS:
        if name == own or FORMATS[name].sequence_modulus is None:
            assert found[FORMATS[name].content_type] == name
        else:
            assert name not in found.values()
    assert found[FORMATS[own].content_type] == own
    assert "application/octet-stream" not in found


def test_a_format_of_somebody_elses_has_its_media_type_though_one_of_ours_has_it(monkeypatch) -> None:
    class Theirs:
        name, content_type, sequence_modulus = "theirs", "Application/JSON", None

    monkeypatch.setitem(FORMATS, "theirs", Theirs())
    found = formats_by_media_type("theirs")
    assert found["application/json"].name == "theirs"
    assert "json" not in {one.name for one in found.values()}
    monkeypatch.delitem(FORMATS, "theirs")


@pytest.mark.parametrize(
    "text", ["application/json", "Application/JSON", " application/json ; charset=utf-8", "application/json;"]
)
def test_case_and_parameters_say_nothing(text: str) -> None:
    assert plain(text) == "application/json"
