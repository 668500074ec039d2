"""A member of a shared subscription asks whether another one is there before it leaves."""

from __future__ import annotations

import pytest

from gateways.protocols.mqtt import members as module
from gateways.protocols.mqtt.members import ANSWERS_PER_S, Members


async def test_a_member_that_is_there_answers_and_one_that_leaves_does_not() -> None:
    leaving, staying = Members("depot"), Members("depot")
    assert leaving.topic == staying.topic == "ivsim/gateways/depot"
    question = leaving.ask()
    assert not leaving.passed_on
    assert leaving.arrived(question) is None, "not even its own question, which the broker passes on to it"
    assert leaving.passed_on
    answer = staying.arrived(question)
    assert answer is not None
    assert leaving.arrived(answer) is None
    assert await leaving.answered(1.0)
    other = staying.ask()
    assert leaving.arrived(other) is None, "of two that leave neither may count on the other"
    assert not await staying.answered(0.01)


@pytest.mark.parametrize(
    "payload",
    [b"", b"who is here? ", b"who is here? " + b"7" * 15, b"who is here? " + b"7" * 17, b"7" * 16, b"here: " + b"7" * 16],
)  # fmt: skip
async def test_what_a_stranger_sends_is_no_question_and_no_answer(payload: bytes) -> None:
    member = Members("depot")
    assert member.arrived(payload) is None
    member.ask()
    assert member.arrived(payload) is None
    assert not await member.answered(0.01)


def test_a_stranger_gets_so_many_answers_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    member, question = Members("depot"), Members("depot").ask()
    answers = [member.arrived(question) for _ in range(100 * ANSWERS_PER_S)]
    assert [answer is None for answer in answers] == [k >= ANSWERS_PER_S for k in range(len(answers))]
    now_s[0] += 1
    assert member.arrived(question) is not None
