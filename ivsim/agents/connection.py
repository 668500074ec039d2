"""The coordinator's end of a connection to an agent: logs in, reads what it says in a thread, compares the clocks."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from ivsim.agents.address import Address
from ivsim.agents.clocks import Exchange, Reading, surest
from ivsim.agents.login import difference, new_nonce, proof, proves
from ivsim.agents.messages import (
    MAX_LINE_BYTES,
    MAX_LOGIN_BYTES,
    PROTOCOL,
    Bye,
    Clock,
    Hello,
    Login,
    Message,
    ProtocolError,
    Refused,
    Welcome,
    line_of,
    message_of,
)
from schemas.errors import Refusal

ANSWER_S: Final = 5.0
# The agent is asked for the time each second; one of which nothing is heard for so long is lost.
HEARTBEAT_S: Final = 1.0
SILENCE_S: Final = 10.0
_EXCHANGES: Final = 32
_COMPARE_S: Final = 2.0
# An agent gives its senders 15 s to end by themselves.
_LEAVE_S: Final = 20.0
_READ_BYTES: Final = 256 * 1024

Clockwork = Callable[[], int]


class AgentConnection:
    """A connection to an agent that knows the token and runs the same code; a context manager that ends it.

    Args:
        address: of the agent.
        token: that both know.
        version: of this code.
        take: is called in the reader's thread with each message that is no answer of the clock's.
        told_lost: is called once with the reason when the connection has ended before its time.
        clock: the wall clock, in ns.

    Refusal when nobody answers, or somebody else does.

    Attributes:
        welcome: what the agent said of itself.
        lost: why the connection has ended before its time; "" while it has not.
    """

    def __init__(
        self,
        address: Address,
        token: str,
        version: str,
        take: Callable[[Message], None] = lambda _: None,
        told_lost: Callable[[str], None] = lambda _: None,
        *,
        clock: Clockwork = time.time_ns,
    ) -> None:
        self.address, self._take, self._told_lost, self._clock = address, take, told_lost, clock
        self.lost = ""
        self._exchanges: list[Exchange] = []
        self._newest: Exchange | None = None
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._closing = False
        self._buffer = bytearray()
        self._socket = self._connected()
        try:
            self.welcome = self._logged_in(token, version)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(SILENCE_S)  # of what is sent: what is read is there
        self._thread = threading.Thread(target=self._read, name=f"agent {address}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, message: Message) -> None:
        """Send a message; where nobody takes it any more, the connection is lost."""
        try:
            with self._sending:
                self._socket.sendall(line_of(message))
        except OSError as error:
            self._lose(f"the connection broke: {error.strerror or error}")

    def compare(self) -> Reading | None:
        """Return how far the agent's clock is ahead, by the surest of some exchanges; None when it has answered none."""
        with self._changed:
            self._exchanges = []
        end_s = time.monotonic() + _COMPARE_S
        while len(self._exchanges) < _EXCHANGES and not self.lost and time.monotonic() < end_s:
            answered = len(self._exchanges)
            self._ask()
            self._wait_for_answer(answered, end_s)
        with self._changed:
            return surest(self._exchanges)

    def _wait_for_answer(self, answered: int, end_s: float) -> None:
        """Return when there are more answers than so many, or the time is over."""
        left_s = max(0.0, end_s - time.monotonic())
        with self._changed:
            self._changed.wait_for(lambda: len(self._exchanges) > answered or bool(self.lost), left_s)

    def newest(self) -> Reading | None:
        """Return what the last answer said of the agent's clock; None where it never answered."""
        with self._changed:
            return surest([] if self._newest is None else [self._newest])

    def close(self) -> None:
        """Take leave, and return once the agent has ended what is left of the run and is free again; idempotent."""
        if not self._closing:
            self._closing = True
            with contextlib.suppress(OSError), self._sending:
                self._socket.sendall(line_of(Bye()))
                self._socket.shutdown(socket.SHUT_WR)
        self._thread.join(_LEAVE_S)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _connected(self) -> socket.socket:
        try:
            connection = socket.create_connection(self.address, timeout=ANSWER_S)
        except OSError as error:
            raise self._refusal(f"no answer: {error.strerror or error}") from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _logged_in(self, token: str, version: str) -> Welcome:
        hello = self._login_line()
        if not isinstance(hello, Hello):
            raise self._refusal(f"{hello.type}: that is no agent's first word")
        if (another := difference(hello, version)) is not None:
            raise self._refusal(another)
        nonce = new_nonce()
        own = proof(token, "coordinator", hello.nonce, nonce)
        try:
            self._socket.sendall(line_of(Login(protocol=PROTOCOL, version=version, nonce=nonce, proof=own)))
        except OSError as error:
            raise self._refusal(f"the connection broke: {error.strerror or error}") from None
        answer = self._login_line()
        if isinstance(answer, Refused):
            raise self._refusal(f"refused: {answer.reason}")
        if not isinstance(answer, Welcome):
            raise self._refusal(f"{answer.type}: that is no answer to a login")
        if not proves(answer.proof, token, "agent", hello.nonce, nonce):
            raise self._refusal("it does not know the token")
        return answer

    def _login_line(self) -> Message:
        """Return the next message of the login, read byte by byte, so that nothing behind it is taken."""
        line, end_s = bytearray(), time.monotonic() + ANSWER_S
        try:
            while not line.endswith(b"\n"):
                left_s = end_s - time.monotonic()
                if left_s <= 0 or not select.select([self._socket], [], [], left_s)[0]:
                    raise self._refusal(
                        f"it says no whole message within {ANSWER_S:g} s: it is no agent of ivsim"
                    )
                found = self._socket.recv(1)
                if not found or len(line) > MAX_LOGIN_BYTES:
                    raise self._refusal("it is no agent of ivsim")
                line += found
            return message_of(bytes(line))
        except OSError as error:
            raise self._refusal(f"the connection broke: {error.strerror or error}") from None
        except ProtocolError:
            raise self._refusal("it is no agent of ivsim") from None

    def _refusal(self, words: str) -> Refusal:
        return Refusal(f"--agent {self.address}: {words}")

    def _ask(self) -> None:
        self.send(Clock(sent_at_ns=self._clock()))

    def _read(self) -> None:
        """Read until the end, and ask for the time now and then: that says, too, that the agent is there."""
        heard_s = asked_s = time.monotonic()
        while not self.lost:
            try:
                readable = bool(select.select([self._socket], [], [], HEARTBEAT_S)[0])
                found = self._socket.recv(_READ_BYTES) if readable else None
            except OSError as error:
                self._lose(f"the connection broke: {error.strerror or error}")
                return
            now_ns, now_s = self._clock(), time.monotonic()
            if found == b"":
                self._lose("it has closed the connection")
                return
            if found:
                heard_s = now_s
                self._buffer += found
                self._take_lines(now_ns)
            elif now_s - heard_s >= SILENCE_S and not self._closing:
                self._lose(f"nothing was heard of it for {SILENCE_S:g} s")
            if now_s - asked_s >= HEARTBEAT_S and not self._closing:
                asked_s = now_s
                self._ask()

    def _take_lines(self, now_ns: int) -> None:
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        if len(rest) > MAX_LINE_BYTES:
            self._lose("it said what is no message: a line without an end")
            return
        for line in lines:
            try:
                message = message_of(bytes(line))
                if isinstance(message, Clock):
                    self._answered(message, now_ns)
                else:
                    self._take(message)
            except ProtocolError as error:
                self._lose(f"it said what is no message: {error}")
                return
            except OSError as error:
                self._lose(f"its log cannot be written here: {error.strerror or error}")
                return

    def _answered(self, answer: Clock, now_ns: int) -> None:
        if answer.received_at_ns is None or answer.answered_at_ns is None:
            raise ProtocolError("clock: without the agent's stamps")
        exchange = Exchange(answer.sent_at_ns, answer.received_at_ns, answer.answered_at_ns, now_ns)
        with self._changed:
            self._exchanges.append(exchange)
            self._newest = exchange
            self._changed.notify_all()

    def _lose(self, reason: str) -> None:
        with self._changed:
            if self._closing or self.lost:
                return
            self.lost = reason
            self._changed.notify_all()
        self._told_lost(reason)
