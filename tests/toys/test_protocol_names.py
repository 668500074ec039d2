"""Code that knows a protocol by its name stands in the protocol's folder and rows; elsewhere a toy would be forgotten."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateways.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ivsim", "simulator", "twin", "schemas", "gateways")
# What belongs to one protocol, as its row names it; published works, whose statements are about protocols; and the audit,
# which shares no code with what it checks, so no rows either.
_NAMES = "|".join(PROTOCOLS)
_BROKERS = "|".join(row.broker for row in PROTOCOLS.values() if row.broker)
OWN = re.compile(
    r"gateways/protocols/\w+/|gateways/protocols/__init__\.py|ivsim/(papers|audit)/"
    rf"|simulator/capture/({_NAMES}|parsers)\.py|ivsim/testbed/({_BROKERS})\.py"
)
SETTINGS = {setting for row in PROTOCOLS.values() for setting in row.settings}


def _named(path: Path) -> Iterator[str]:
    """Yield the names and the strings of code, no comments and no docstrings, that hold a protocol's name."""
    names = re.compile(_NAMES, re.IGNORECASE)
    before = tokenize.INDENT
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        docstring = token.type == tokenize.STRING and before in (
            tokenize.INDENT,
            tokenize.NEWLINE,
            tokenize.NL,
        )
        # Prose writes MQTT and CoAP, code mqtt and coap.
        text = token.string if token.type == tokenize.NAME else re.sub("MQTT|AMQP|CoAP", "", token.string)
        for setting in SETTINGS:
            text = text.replace(setting, "")
        if token.type in (tokenize.NAME, tokenize.STRING) and not docstring and names.search(text):
            yield f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        if token.type != tokenize.COMMENT:
            before = token.type


@pytest.mark.parametrize("package", PACKAGES)
def test_no_protocol_is_known_by_its_name(package: str) -> None:
    sources = [path for path in (ROOT / package).rglob("*.py") if not OWN.match(str(path.relative_to(ROOT)))]
    assert len(sources) > 5
    assert [line for path in sources for line in _named(path)] == []


def test_a_name_in_code_is_found(tmp_path: Path) -> None:
    source = ROOT / "simulator" / "capture" / "coap.py"
    assert any("CoapFlow" in line for line in _named(source))
