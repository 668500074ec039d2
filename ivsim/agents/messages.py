"""What a coordinator and an agent say to each other: lines of JSON over TCP, one message each; it opens nothing.

The agent begins with `hello`, the coordinator answers `login`, the agent `welcome` or `refused`. Behind that the
coordinator sends `start_sender`, `command`, `clock` and `bye`, the agent `event`, `log`, `ended` and `clock`.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from schemas.config import Strict

PROTOCOL: Final = 1
# A sender's configuration lists its vehicles: half a megabyte for the largest fleet of a run.
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
# Until both have proved that they know the token.
MAX_LOGIN_BYTES: Final = 4_096
LOG_BYTES_AT_ONCE: Final = 256 * 1024
NONCE_BYTES: Final = 32
WORDS_CHARACTERS: Final = 100_000

_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]
_Index = Annotated[int, Field(ge=0, lt=64)]
_Ns = Annotated[int, Field(ge=0, lt=2**63)]
_Words = Annotated[str, Field(max_length=WORDS_CHARACTERS)]


class ProtocolError(Exception):
    """A line that is no message of this protocol."""


class Hello(Strict):
    """The agent's first word: what it speaks, which code it is, and a number nobody has used before."""

    type: Literal["hello"] = "hello"
    protocol: int
    version: _Words
    nonce: _Hex


class Login(Strict):
    """The coordinator's answer, with its proof that it knows the token."""

    type: Literal["login"] = "login"
    protocol: int
    version: _Words
    nonce: _Hex
    proof: _Hex


class Welcome(Strict):
    """The agent's proof in return, and what it has to give.

    Attributes:
        cores: that its processes may use.
        open_files: that one of them may have; 0 is no limit.
    """

    type: Literal["welcome"] = "welcome"
    proof: _Hex
    name: _Words
    cores: _Count
    open_files: _Count


class Refused(Strict):
    """Why the agent will not; it closes the connection behind it."""

    type: Literal["refused"] = "refused"
    reason: _Words


class StartSender(Strict):
    """Start a sender process; `config` is its configuration, without the path of its log, which is the agent's."""

    type: Literal["start_sender"] = "start_sender"
    sender: _Index
    config: dict[str, Any]


class Command(Strict):
    """A line for a sender's standard input."""

    type: Literal["command"] = "command"
    sender: _Index
    command: dict[str, Any]


class Event(Strict):
    """A line of a sender's standard output."""

    type: Literal["event"] = "event"
    sender: _Index
    event: dict[str, Any]


class Log(Strict):
    """What a sender's emission log has gained: whole records, in base64."""

    type: Literal["log"] = "log"
    sender: _Index
    records: str

    @classmethod
    def of(cls, sender: int, records: bytes) -> Log:
        return cls(sender=sender, records=base64.b64encode(records).decode())

    def content(self) -> bytes:
        """Return the records; ProtocolError where they are no base64."""
        try:
            return base64.b64decode(self.records, validate=True)
        except ValueError as error:
            raise ProtocolError(f"log: {error}") from None


class Ended(Strict):
    """A sender has ended, and its whole log was sent; `words` are the last of its own log."""

    type: Literal["ended"] = "ended"
    sender: _Index
    exit_code: int
    words: _Words = ""


class Clock(Strict):
    """A question for the time, or its answer, which has the agent's two stamps."""

    type: Literal["clock"] = "clock"
    sent_at_ns: _Ns
    received_at_ns: _Ns | None = None
    answered_at_ns: _Ns | None = None


class Bye(Strict):
    """The coordinator has what it wants: the agent may forget it."""

    type: Literal["bye"] = "bye"


Message = (
    Hello | Login | Welcome | Refused | StartSender | Command | Event | Log | Ended | Clock | Bye
)  # fmt: skip
_ANY: Final[TypeAdapter[Message]] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def line_of(message: Message) -> bytes:
    """Return a message as a line."""
    return message.model_dump_json().encode() + b"\n"


def message_of(line: bytes) -> Message:
    """Return the message in a line; ProtocolError says what is wrong with it."""
    try:
        return _ANY.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"{where}: {first['msg']}" if where else first["msg"]) from None
