"""An agent of paper: it logs in a coordinator as told, and says what a test lets it say."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from ivsim.agents.address import Address
from ivsim.agents.login import new_nonce, proof
from ivsim.agents.messages import (
    PROTOCOL,
    Clock,
    Event,
    Hello,
    Login,
    Message,
    StartSender,
    Welcome,
    line_of,
    message_of,
)

TOKEN = "a token of sixteen and more"
VERSION = "ivsim 9.9.9 (abc)"


class FakeAgent:
    """Takes one coordinator; its senders are ready at once and do nothing.

    Args:
        ahead_ns: of its clock.
        token: that it believes in.
        version: that it claims.
        first: what it says before anything else, in place of its hello.

    Attributes:
        mute: it listens, and answers nothing any more.
    """

    def __init__(
        self, *, ahead_ns: int = 0, token: str = TOKEN, version: str = VERSION, first: bytes | None = None
    ) -> None:
        self.ahead_ns, self._token, self._version, self._first = ahead_ns, token, version, first
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1])
        self.heard: list[Message] = []
        self.mute = False
        self._connection: socket.socket | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._listening.close()
        self._thread.join()

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns

    def say(self, message: Message) -> None:
        assert self._connection is not None
        self._connection.sendall(line_of(message))

    def die(self) -> None:
        for one in (self._listening, self._connection):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def wait_for(self, which: Callable[[Message], Any], timeout_s: float = 20.0) -> Message:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(which, self.heard)), timeout_s)
            return next(one for one in self.heard if which(one))

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            self._connection, _ = self._listening.accept()
            with self._connection, self._connection.makefile("rb") as lines:
                self._login(lines)
                for line in lines:
                    self._take(message_of(line))

    def _login(self, lines: Any) -> None:
        nonce = new_nonce()
        hello = line_of(Hello(protocol=PROTOCOL, version=self._version, nonce=nonce))
        assert self._connection is not None
        self._connection.sendall(hello if self._first is None else self._first)
        line = lines.readline()
        if not line:
            raise OSError("gone")
        login = message_of(line)
        assert isinstance(login, Login)
        own = proof(self._token, "agent", nonce, login.nonce)
        self.say(Welcome(proof=own, name="paper", cores=4, open_files=1_024))

    def _take(self, message: Message) -> None:
        received_at_ns = self.now_ns()
        if self.mute:
            return
        if isinstance(message, Clock):
            sent = message.sent_at_ns
            self.say(Clock(sent_at_ns=sent, received_at_ns=received_at_ns, answered_at_ns=self.now_ns()))
            return
        if isinstance(message, StartSender):
            self.say(Event(sender=message.sender, event={"event": "ready"}))
        with self._changed:
            self.heard.append(message)
            self._changed.notify_all()
