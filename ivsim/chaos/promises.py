"""What a mode promises when a part fails, checked on the ledger's rows; pure, it starts nothing.

"No message is lost" is the promise of no mode. A promise is about *acknowledged* messages, and about who acknowledged: at
QoS 1 the broker's PUBACK means that the broker has the message, not that Kafka has. So each mode and fault has a
promise of its own, from the protocol's guarantee and from what its broker keeps over a kill, and names the hops at
which an acknowledged message may be lost. A loss anywhere else breaks it. What must hold always (`ALWAYS`) is
checked beside it: the sums, a hop for every loss, no duplicate in a twin, and that the run went on after the fault at
all, so that a case in which nothing was sent cannot pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Mode
from ivsim.testbed.servers import SERVERS
from ledger.metrics import ACCOUNT, FATES

Row = Mapping[str, Any]
Message = tuple[str, int, int]  # vehicle, epoch, sequence
IN_TWIN = ("delivered", "late")
KILLS_OF_BROKER = ("broker-kill", "backlog-kill")
KILL_OF_PLATFORM = "platform-kill"
# Platforms that confirm, without `--platform-durability synced`, what they have not given to the operating system yet.
WRITE_LATE = ("redis",)
ENDS_OF_BROKER = (*KILLS_OF_BROKER, "broker-stop")
# By the gateway's number.
ENDS_OF_GATEWAY = {
    0: ("gateway-kill", "gateway-stop"),
    1: ("second-gateway-kill", "second-gateway-stop"),
}
ENDS_OF_EVERY_GATEWAY = ("backlog-kill",)


@dataclass(frozen=True)
class BrokerEnd:
    """One end of a broker that saves what it keeps now and then, by this machine's clock.

    Attributes:
        ended_at_ns: when it was gone.
        saved_at_ns: its last save before it was killed, 0 without any; None where it ended in order, and so saved all.
        shared_again_at_ns: when the first of several gateways had subscribed again behind it; None where one gateway has
            all vehicles, and where none was seen to.
    """

    ended_at_ns: int
    saved_at_ns: int | None
    shared_again_at_ns: int | None = None

    def unsaved(self, row: Row) -> bool:
        """Say whether an acknowledged message may have gone with the broker, and was not in its last save.

        mosquitto writes its queues in one thread, between two messages: whatever it has acknowledged before the file's
        time of change is in it.
        """
        saved = self.saved_at_ns
        return saved is not None and saved < row["acknowledged_at_ns"] and _sent(row) < self.ended_at_ns

    def unshared(self, row: Row) -> bool:
        """Say whether it may have been acknowledged behind the broker's return, while no gateway was subscribed."""
        again = self.shared_again_at_ns
        return again is not None and self.ended_at_ns < row["acknowledged_at_ns"] and _sent(row) < again

    def may_lose(self, row: Row) -> bool:
        """Say whether an acknowledged message may be lost because of this end."""
        return self.unsaved(row) or self.unshared(row)


def _sent(row: Row) -> int:
    """Return when a message was sent first, in ns since 1970; 0 where that is not known."""
    return row["emitted_at_ns"] or 0


@dataclass(frozen=True)
class Promise:
    """What must hold after one fault, besides what always must: see ALWAYS.

    Attributes:
        word: for the table.
        meaning: for the legend below it.
        lost_at: hops at which an acknowledged message may be lost.
        ends: of the broker in this run; a message that none of them explains may not be lost. None: not known.
    """

    word: str
    meaning: str
    lost_at: tuple[str, ...] = ()
    ends: tuple[BrokerEnd, ...] | None = None

    def after(self, ends: Iterable[BrokerEnd]) -> Promise:
        """Return the promise of a run whose broker ended so; of one that does not depend on it itself."""
        return replace(self, ends=tuple(ends)) if self.word in {SAVED.word, SHARED.word} else self

    def excuses(self, row: Row) -> bool:
        """Say whether an acknowledged message may be lost as this row says."""
        if row["hop"] not in self.lost_at:
            return False
        return self.ends is None or any(end.may_lose(row) for end in self.ends)


KEEPS = Promise(
    "keeps", "every message acknowledged to its vehicle is in Kafka, or had by the platform's consumer"
)
SAVED = Promise(
    "saved",
    "mosquitto saves every few seconds (autosave_interval): what it acknowledged since the last save before it is"
    " killed may be lost, and the ledger names it at the broker",
    ("broker",),
)
SHARED = Promise(
    "shared",
    f"{SAVED.meaning}; nor does it restore a shared subscription when it starts again, killed or not: what it"
    " acknowledged until the first of several gateways had subscribed once more may be lost too",
    ("broker",),
)
WRITTEN = Promise(
    "written",
    "Redis that flushes each second (appendfsync everysec) holds its writes back for up to 2 s while a flush goes on, and"
    " answers all the same: what it confirmed then may be lost when it is killed, and the ledger names it at the platform",
    ("platform",),
)
MAY_LOSE = Promise(
    "may lose",
    "the mode may lose; the ledger names each loss with the hop where it was last seen, and what the broker had"
    " confirmed may be lost in it and behind it alone",
    ("broker", "gateway"),
)
ANSWERED = Promise(
    "answered",
    "the mode may lose; what the gateway has answered (2.04) is in Kafka",
)
PROMISES = (KEEPS, SAVED, SHARED, WRITTEN, MAY_LOSE, ANSWERED)
ALWAYS = (
    ACCOUNT,
    "no message's fate is unknown",
    "every lost message has a hop",
    "no message counts twice in a twin",
    "what is in Kafka is in the twin",
    "of what was due after the part was back, half at least is in the twin",
    "where the mode keeps its messages, half of all at least is in the twin",
)
LEAST = 0.5


@dataclass
class Judgement:
    """Counts of one case and the promises it broke, one line each."""

    promise: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    lost_by_hop: dict[str, int] = field(default_factory=dict)
    acknowledged_and_lost: int = 0
    duplicates: int = 0
    broken: list[str] = field(default_factory=list)


def promise_of(protocol: str, mode: Mode, fault: str, gateways: int = 1, platform: str = "") -> Promise:
    """Return what the mode promises when this fault happens to one of so many gateways, their broker, or their platform."""
    if platform in WRITE_LATE and fault == KILL_OF_PLATFORM and mode.guarantee != "at_most_once":
        return WRITTEN
    broker = PROTOCOLS[protocol].broker
    if mode.guarantee == "at_most_once":
        # Without a broker the vehicle's only acknowledgement is the gateway's, which waits for Kafka in every mode.
        return MAY_LOSE if broker is not None else ANSWERED
    if broker is None:
        return KEEPS
    if gateways > 1 and fault in ENDS_OF_BROKER and SERVERS[broker].forgets_shares:
        return SHARED
    return SAVED if fault in KILLS_OF_BROKER and SERVERS[broker].saves_late else KEEPS


def owed_by_broker(
    rows: Iterable[Row],
    injected_at_ns: Mapping[str, Sequence[int]],
    taken_at_ns: Mapping[Message, Mapping[int, int]],
) -> list[Row]:
    """Return the rows, with the broker as the hop of messages that it had not got off its hands when it was killed.

    A gateway acknowledges to its broker what Kafka has. One that ends while Kafka stands still leaves what it had
    received to the broker, which still has it; where that is killed too before it has saved it, the message was last
    seen at the gateway, and lost by the broker. A gateway that lived on still had it, and is not excused.

    Args:
        rows: the ledger's.
        injected_at_ns: when each fault had done what it does, by its name.
        taken_at_ns: of each message that was last seen at a gateway: when each gateway, by its number, took it last.
    """

    def last(faults: Iterable[str]) -> int:
        return max((at for fault in faults for at in injected_at_ns.get(fault, ())), default=0)

    def end(number: int) -> int:
        return last((*ENDS_OF_GATEWAY.get(number, ()), *ENDS_OF_EVERY_GATEWAY))

    killed = last(KILLS_OF_BROKER)

    def owed(row: Row) -> bool:
        # None has one that had reached the gateway's host, and that nobody had read.
        taken = taken_at_ns.get(message_of(row), {}) if row["hop"] == "gateway" else {}
        return bool(taken) and all(at_ns < min(end(number), killed) for number, at_ns in taken.items())

    return [{**row, "hop": "broker"} if owed(row) else row for row in rows]


def message_of(row: Row) -> Message:
    """Return what names a message."""
    return row["vehicle_id"], row["epoch"], row["sequence"]


def acknowledged_and_lost(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of messages that were acknowledged to their vehicles and are not in Kafka, or at the consumer."""
    return [
        row
        for row in rows
        if row["acknowledged_at_ns"] is not None
        and (row["appended_at_ns"] is None or row["hop"] == "platform")
        and row["fate"] not in {*IN_TWIN, "unknown"}
    ]


def of_ends(rows: Iterable[Row], ends: Iterable[BrokerEnd]) -> list[dict[str, Any]]:
    """Return what each end of a broker came to: the proof that a loss is what it explains.

    `unsaved_s`: since the last save, None without any; `unsaved_lost`: acknowledged messages that went with it;
    `first_unsaved_s`: how long behind the save the first of them was acknowledged, None without any. `unshared_s`: until the
    first gateway had subscribed again; `unshared_lost`: messages acknowledged in that time and lost; `last_unshared_s`: how
    long before the subscription the last of them was sent.
    """
    left = [row for row in acknowledged_and_lost(rows) if row["hop"] == "broker"]
    found = []
    for end in ends:
        unsaved = [row for row in left if end.unsaved(row)]
        unshared = [row for row in left if end.unshared(row) and not end.unsaved(row)]
        left = [row for row in left if not end.may_lose(row)]
        saved_at_ns, again_at_ns = end.saved_at_ns or None, end.shared_again_at_ns
        first = min((row["acknowledged_at_ns"] for row in unsaved), default=None)
        last = max((_sent(row) for row in unshared), default=None)
        found.append(
            {
                "unsaved_s": _seconds(saved_at_ns, end.ended_at_ns),
                "unsaved_lost": len(unsaved),
                "first_unsaved_s": _seconds(saved_at_ns, first),
                "unshared_s": _seconds(end.ended_at_ns, again_at_ns),
                "unshared_lost": len(unshared),
                "last_unshared_s": _seconds(last, again_at_ns),
            }
        )
    return found


def _seconds(from_ns: int | None, to_ns: int | None) -> float | None:
    return None if from_ns is None or to_ns is None else round((to_ns - from_ns) / 1e9, 3)


def weakest(promises: Iterable[Promise]) -> Promise:
    """Return the promise that allows the most: what a mode keeps after several faults. KEEPS without any."""
    return max(promises, key=lambda promise: len(promise.lost_at), default=KEEPS)


def judge(
    rows: Iterable[Row], promise: Promise, twin_distinct: int, restored_at_ns: int | None = None
) -> Judgement:
    """Return what became of a case's messages and which promises were broken.

    Args:
        rows: the ledger's rows, one per message due.
        promise: what the mode keeps after this fault.
        twin_distinct: distinct messages over all twins, by their own counters at the end, or at the platform's consumer.
        restored_at_ns: when the part was back; None where it never came back, or nothing was to come back.
    """
    ledger = list(rows)
    judgement = Judgement(promise.word)
    judgement.counts = {fate: sum(row["fate"] == fate for row in ledger) for fate in FATES}
    judgement.counts["due"] = len(ledger)
    judgement.duplicates = sum(max(0, (row["copies"] or 1) - 1) for row in ledger)
    lost = [row for row in ledger if row["fate"] == "lost"]
    judgement.lost_by_hop = dict(sorted(Counter(str(row["hop"]) for row in lost).items()))
    judgement.broken = [
        *_closed(judgement, lost),
        *_acknowledged(ledger, promise, judgement),
        *_twin(judgement, lost, twin_distinct),
        *_recovered(ledger, promise, restored_at_ns),
    ]
    return judgement


def _closed(judgement: Judgement, lost: list[Row]) -> list[str]:
    counts, broken = judgement.counts, []
    if not counts["due"]:
        broken.append("the ledger is empty")
    if sum(counts[fate] for fate in FATES) != counts["due"]:
        broken.append(f"{ACCOUNT} does not hold")
    if counts["unknown"]:
        broken.append(
            f"the fate of {counts['unknown']} messages is unknown: nothing shows that they were kept"
        )
    nowhere = [row for row in lost if row["hop"] is None]
    if nowhere:
        broken.append(f"{_few(nowhere)} lost without a hop")
    return broken


def _acknowledged(ledger: list[Row], promise: Promise, judgement: Judgement) -> list[str]:
    missing = acknowledged_and_lost(ledger)
    judgement.acknowledged_and_lost = len(missing)
    broken = [row for row in missing if not promise.excuses(row)]
    if not broken:
        return []
    hops = ", ".join(sorted({str(row["hop"]) for row in broken}))
    return [f"{_few(broken)} acknowledged and lost, last seen at: {hops}"]


def _twin(judgement: Judgement, lost: list[Row], twin_distinct: int) -> list[str]:
    broken = []
    in_twin = sum(judgement.counts[fate] for fate in IN_TWIN)
    if twin_distinct != in_twin:
        broken.append(f"the twins count {twin_distinct} distinct messages, the ledger {in_twin}")
    passed_over = [row for row in lost if row["hop"] == "kafka"]
    if passed_over:
        broken.append(f"{_few(passed_over)} in Kafka and not in the twin")
    return broken


def _recovered(ledger: list[Row], promise: Promise, restored_at_ns: int | None) -> list[str]:
    """A system that takes nothing any more loses nothing either: it must have gone on."""
    after = [row for row in ledger if restored_at_ns is not None and row["due_at_ns"] > restored_at_ns]
    broken = []
    if after and (arrived := _in_twin(after)) < LEAST * len(after):
        broken.append(f"of {len(after)} messages due after the part was back {arrived} are in the twin")
    if promise.word in {KEEPS.word, SAVED.word, SHARED.word} and (arrived := _in_twin(ledger)) < LEAST * len(
        ledger
    ):
        broken.append(f"of {len(ledger)} messages due {arrived} are in the twin")
    return broken


def _in_twin(rows: list[Row]) -> int:
    return sum(row["fate"] in IN_TWIN for row in rows)


def _few(rows: list[Row]) -> str:
    """Return how many there are, and which is the first."""
    return f"{len(rows)} messages (first: {rows[0]['vehicle_id']} {rows[0]['sequence']})"
