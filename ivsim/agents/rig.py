"""All agents of a run: logged in at, compared by their clocks, their logs brought home; it decides nothing of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ivsim.agents.address import Address, address_of
from ivsim.agents.clocks import CLOCK_FIGURES, ClockLine, Reading
from ivsim.agents.connection import AgentConnection
from ivsim.agents.log_times import give_up
from ivsim.agents.login import TOKEN_VARIABLE
from ivsim.agents.messages import Ended, Event, Log, Message, ProtocolError, StartSender, Welcome
from ivsim.agents.remote_sender import RemoteSender
from ivsim.code_version import version_line
from ivsim.testbed.process import NotReady
from schemas.errors import Refusal
from schemas.tokens import read_token
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig


def agent_token(path: str | None) -> str:
    """Return the token that the agents of a run know; Refusal where there is none."""
    token = read_token(path or "", TOKEN_VARIABLE)
    if not token:
        raise Refusal(f"--agent: needs the token of the agents: --agent-token-file FILE, or {TOKEN_VARIABLE}")
    return token


def ask_agents(addresses: Sequence[str], token_file: str | None) -> list[Welcome]:
    """Return what each agent has to give; Refusal for one that does not answer, is another version's, or has a run."""
    token, version = agent_token(token_file), version_line()
    found = []
    for text in addresses:
        with AgentConnection(address_of(text), token, version) as connection:
            found.append(connection.welcome)
    return found


class _Hosted(NamedTuple):
    """A sender of a run on an agent, and the vehicles it has."""

    sender: RemoteSender
    vehicles: list[int]


class AgentEnd:
    """One agent of a run: the connection, its senders, and the two readings of its clock.

    Attributes:
        before: of the clock, right before the start; None until then.
    """

    def __init__(self, address: Address, token: str, version: str) -> None:
        self.senders: dict[int, _Hosted] = {}
        self.before: Reading | None = None
        self.after: Reading | None = None
        self.connection = AgentConnection(address, token, version, self._take, self._lost)

    def start(self, name: str, number: int, config: SenderConfig, raw: Path) -> RemoteSender:
        """Let the agent start a sender, whose log is written where its configuration says."""
        address = str(self.connection.address)
        log = Path(config.events_path)
        sender = RemoteSender(name, number, address, self.connection.send, log=log, raw=raw)
        self.senders[number] = _Hosted(sender, config.numbers())
        words = config.model_dump(mode="json", exclude={"events_path"})
        self.connection.send(StartSender(sender=number, config=words))
        return sender

    def compare(self) -> None:
        """Take the reading before the start; NotReady where the agent answers nothing."""
        self.before = self.connection.compare()
        if self.before is None:
            why = self.connection.lost or "it does not say its time"
            raise NotReady(f"agent {self.connection.address}: {why}")
        for sender, _ in self.senders.values():
            sender.ahead_ns = self.before.ahead_ns

    def settle(self, scenario: Scenario) -> None:
        """Take the reading behind the run, bring the logs to our clock, and note what a lost agent has left unsent."""
        self.after = None if self.connection.lost else self.connection.compare()
        line = self.line()
        for sender, vehicles in self.senders.values():
            if line is not None:
                sender.translate(line)
            if sender.gone():
                give_up(sender.log, scenario, vehicles, time.time_ns())

    def line(self) -> ClockLine | None:
        """Return the agent's clock over the run, of a lost one up to its last answer; None before the start."""
        after = self.after or self.connection.newest()
        return None if self.before is None or after is None else ClockLine(self.before, after)

    def facts(self) -> dict[str, Any]:
        """Return what a result says of the agent: who it was, what it had, its clock, and why it was lost, if it was."""
        welcome, line = self.connection.welcome, self.line()
        used_s = [hosted.sender.latest.get("done", {}).get("cpu_s") for hosted in self.senders.values()]
        return {
            "address": str(self.connection.address),
            "name": welcome.name,
            "cores": welcome.cores,
            "senders": [hosted.sender.name for hosted in self.senders.values()],
            "vehicles": sum(len(hosted.vehicles) for hosted in self.senders.values()),
            "senders_cpu_s": None if None in used_s else sum(used_s),
            "lost": self.connection.lost or None,
            **(dict.fromkeys(CLOCK_FIGURES) if line is None else line.figures()),
        }

    def _take(self, message: Message) -> None:
        if not isinstance(message, Event | Log | Ended) or message.sender not in self.senders:
            raise ProtocolError(f"{message.type}: of no sender of this run")
        self.senders[message.sender].sender.take(message)

    def _lost(self, reason: str) -> None:
        for sender, _ in tuple(self.senders.values()):
            sender.lose(reason)


class Agents:
    """The agents of a run, in the order in which they were named; a context manager that ends what they do for it."""

    def __init__(self, addresses: Sequence[str], token_file: str | None) -> None:
        self._addresses, self._token_file = addresses, token_file
        self._ends: list[AgentEnd] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._addresses:
            return self
        token, version = agent_token(self._token_file), version_line()
        with ExitStack() as stack:
            for text in self._addresses:
                end = AgentEnd(address_of(text), token, version)
                stack.callback(end.connection.close)
                self._ends.append(end)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, agent: int, name: str, number: int, config: SenderConfig, raw: Path) -> RemoteSender:
        """Let agent number `agent` (from 0) start a sender."""
        return self._ends[agent].start(name, number, config, raw)

    def compare(self) -> None:
        """Take the clocks' readings before the start; NotReady where an agent answers nothing."""
        for end in self._ends:
            end.compare()

    def settle(self, scenario: Scenario) -> None:
        """Behind the last message: take the clocks' readings once more and bring every log to our clock."""
        for end in self._ends:
            end.settle(scenario)

    def facts(self) -> list[dict[str, Any]]:
        """Return what a result says of each agent."""
        return [end.facts() for end in self._ends]
