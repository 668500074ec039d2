"""The Python reference on the table of cases that it shares with the Java module."""

from __future__ import annotations

import pytest

from tests.twin import fold_cases
from tests.twin.reference import fold, payload_bytes

CASES = fold_cases.cases()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_reference_agrees_with_the_table(case: dict[str, str]) -> None:
    messages = fold_cases.messages(case["records"])
    found = fold(messages)
    sized = [(epoch, sequence, fold_cases.PAYLOAD_BYTES) for epoch, sequence, _ in messages]
    found["payload_bytes"] = payload_bytes(sized)
    wanted = {name: int(word) for name, word in case.items() if name not in {"name", "records"}}
    assert {name: found[name] for name in wanted} == wanted
    assert (found["first_received_at_ns"], found["last_received_at_ns"]) == (1, len(messages))
