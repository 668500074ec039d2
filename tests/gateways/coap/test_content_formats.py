"""CoAP's numbers of formats: registered ones, or of the range for experiments."""

from __future__ import annotations

from aiocoap.numbers import ContentFormat

from gateways.protocols.coap.content_formats import content_formats
from schemas.formats import FORMATS, OWN_FORMATS


def test_coap_numbers_are_registered_or_of_the_range_for_experiments() -> None:
    """RFC 7252, 12.3."""
    for own in OWN_FORMATS:
        for number, media_type in content_formats(own).items():
            if number < 65_000:
                assert ContentFormat(number).media_type.partition(";")[0] == media_type
            else:
                assert number < 65_536
    assert set(content_formats("small")) == {0, 50, 65_001, 65_002, 65_003, 65_004}
    assert 0 not in content_formats("protobuf")


def test_a_number_leads_to_no_format_of_ours_whose_media_type_is_somebody_elses_own(monkeypatch) -> None:
    class Theirs:
        name, content_type, sequence_modulus = "theirs", "Application/JSON", None

    monkeypatch.setitem(FORMATS, "theirs", Theirs())
    assert "application/json" not in content_formats("theirs").values()
