"""Whether another gateway of a shared subscription is there: a member asks before it leaves, each other one answers.

MQTT tells no client who else subscribes. A broker acknowledges what comes for a shared subscription without members as it
does any message that nobody wants, and drops it (MQTT 5, 3.3.4 and 3.4.2.1; 3.1.1, 3.3.5). So a member that unsubscribes may leave
only when another one is there; the last one leaves its session at the broker, which keeps the messages in it as it does for
a gateway alone.

The question is a message on the group's own topic, with a number of its own. A member that is about to leave answers nobody:
of two that leave at a time neither gets an answer, and both keep their sessions. One that has answered and leaves
afterwards asks in its turn. Silence means that the session is kept. A member sees its own question too; where it does not,
the broker stands still or permits the topic to nobody, and others may be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from typing import Final

GROUP_TOPICS: Final = "ivsim/gateways/"
# A member that lives answers in milliseconds; behind what its broker has sent it already, in tenths of a second.
ANSWER_S: Final = 1.0
# Of a stranger who may publish on the topic.
ANSWERS_PER_S: Final = 20
_ASK: Final = b"who is here? "
_ANSWER: Final = b"here: "
_NUMBER_BYTES: Final = 16


class Members:
    """One member's part in it.

    Attributes:
        topic: of the group; it is none of a vehicle's.
        passed_on: the broker has passed the question on, to this member too.
    """

    def __init__(self, group: str) -> None:
        self.topic = GROUP_TOPICS + group
        self.passed_on = False
        self._asked = b""
        self._answered = asyncio.Event()
        self._second = self._answers = 0

    def ask(self) -> bytes:
        """Return the question; from now on this member answers nobody."""
        self._asked = secrets.token_hex(_NUMBER_BYTES // 2).encode()
        return _ASK + self._asked

    async def answered(self, timeout_s: float) -> bool:
        """Wait for an answer to the question; return whether one came in time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), timeout_s)
        return self._answered.is_set()

    def arrived(self, payload: bytes) -> bytes | None:
        """Take a message on the topic; return the answer to be published, if it wants one."""
        if self._asked:
            if payload == _ANSWER + self._asked:
                self._answered.set()
            self.passed_on |= payload == _ASK + self._asked
            return None
        number = payload.removeprefix(_ASK)
        if len(payload) - len(number) != len(_ASK) or len(number) != _NUMBER_BYTES:
            return None
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._answers = second, 0
        self._answers += 1
        return _ANSWER + number if self._answers <= ANSWERS_PER_S else None
