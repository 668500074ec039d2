"""Each promise is seen to hold on a good ledger and to fail on one that breaks it, and no other does."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gateways.protocols import PROTOCOLS
from gateways.receive_log import ReceiveLog
from ivsim.chaos import faults
from ivsim.chaos.case import Case, options_of, taken_at_ns
from ivsim.chaos.faults import FAULTS, BrokerEnds
from ivsim.chaos.promises import (
    ANSWERED,
    ENDS_OF_BROKER,
    KEEPS,
    MAY_LOSE,
    PROMISES,
    SAVED,
    SHARED,
    BrokerEnd,
    Judgement,
    Promise,
    judge,
    message_of,
    of_ends,
    owed_by_broker,
    promise_of,
)
from ivsim.chaos.table import print_tables
from ivsim.commands.chaos import cases_of
from ledger.metrics import FATES
from schemas.errors import Refusal

HOPS = ("vehicle", "link", "broker", "gateway")
Ledger = list[dict[str, Any]]


def row(fate: str = "delivered", hop: str | None = None, **stamps: Any) -> dict[str, Any]:
    arrived = fate in {"delivered", "late"}
    return {
        "vehicle_id": "YV2RT40A8KB000001",
        "epoch": 0,
        "sequence": 7,
        "fate": fate,
        "hop": hop,
        "acknowledged_at_ns": 2 if arrived else None,
        "appended_at_ns": 1 if arrived else None,
        "copies": 1 if arrived else None,
        "due_at_ns": 1_000,
        "emitted_at_ns": 1,
    } | stamps


def lost(hop: str | None, *, acknowledged: bool = False, in_kafka: bool = False) -> dict[str, Any]:
    return row(
        "lost", hop, acknowledged_at_ns=2 if acknowledged else None, appended_at_ns=1 if in_kafka else None
    )


def broken(ledger: Ledger, promise: Promise, twin_distinct: int | None = None) -> list[str]:
    in_twin = sum(r["fate"] in {"delivered", "late"} for r in ledger)
    return judge(ledger, promise, in_twin if twin_distinct is None else twin_distinct).broken


@pytest.mark.parametrize("promise", PROMISES)
def test_a_ledger_without_loss_keeps_every_promise(promise: Promise) -> None:
    assert broken([row(), row("late", copies=3), row("unsent")], promise) == []


def test_an_acknowledged_message_that_is_lost_breaks_keeps() -> None:
    for hop in HOPS:
        (line,) = broken([row(), lost(hop, acknowledged=True)], KEEPS)
        assert "1 messages" in line
        assert line.endswith(f"acknowledged and lost, last seen at: {hop}")
        assert "YV2RT40A8KB000001 7" in line


def test_a_message_that_was_never_acknowledged_may_go_where_acknowledged_ones_may_not() -> None:
    assert broken([*(row() for _ in HOPS), *(lost(hop) for hop in HOPS)], KEEPS) == []


def test_a_killed_mosquitto_may_lose_at_the_broker_alone() -> None:
    assert broken([row(), lost("broker", acknowledged=True)], SAVED) == []
    for hop in ("vehicle", "link", "gateway"):
        assert len(broken([row(), lost(hop, acknowledged=True)], SAVED)) == 1


@pytest.mark.parametrize(
    ("kills", "excused"),
    [
        ([(5, 20)], True),  # acknowledged behind the last save
        ([(0, 20)], True),  # nothing was saved
        ([(12, 20)], False),  # it was saved
        ([(5, 8)], False),  # it was sent after the kill
        ([(5, 8), (12, 20)], False),
        ([(5, 8), (8, 20)], True),
        ([], False),
    ],
)
def test_what_a_killed_mosquitto_had_saved_it_may_not_lose(
    kills: list[tuple[int, int]], excused: bool
) -> None:
    gone = row("lost", "broker", emitted_at_ns=9, acknowledged_at_ns=10, appended_at_ns=None)
    promise = SAVED.after(BrokerEnd(killed, saved) for saved, killed in kills)
    assert (broken([row(), gone], promise) == []) == excused
    assert KEEPS.after([BrokerEnd(20, 0)]) is KEEPS


@pytest.mark.parametrize(
    ("end", "excused"),
    [
        (BrokerEnd(5, None, 10), True),  # sent before a gateway had subscribed again
        (BrokerEnd(5, 4, 10), True),
        (BrokerEnd(5, None, 9), False),  # a gateway was there
        (BrokerEnd(5, None), False),  # nobody has seen when one was
        (BrokerEnd(11, None, 12), False),  # acknowledged before the broker ended in order, and so saved
        (BrokerEnd(11, 10, 12), False),
        (BrokerEnd(11, 9, 12), True),
    ],
)
def test_a_mosquitto_that_returns_may_lose_until_a_gateway_has_subscribed_again(
    end: BrokerEnd, excused: bool
) -> None:
    gone = row("lost", "broker", emitted_at_ns=9, acknowledged_at_ns=10, appended_at_ns=None)
    assert (broken([row(), gone], SHARED.after([end])) == []) == excused
    for hop in ("vehicle", "link", "gateway"):
        assert len(broken([row(), {**gone, "hop": hop}], SHARED.after([end]))) == 1


@pytest.mark.parametrize(
    ("injected_at_ns", "owes"),
    [
        ({"backlog-kill": [9]}, "broker"),
        ({"gateway-stop": [6, 9], "broker-kill": [8]}, "broker"),
        ({"broker-kill": [6], "gateway-kill": [9]}, "broker"),
        ({"broker-kill": [9]}, "gateway"),  # the gateway lives, and has it still
        ({"gateway-kill": [9], "broker-stop": [9]}, "gateway"),  # the broker has saved it
        ({"gateway-kill": [9], "broker-kill": [4]}, "gateway"),
        ({"gateway-kill": [4], "broker-kill": [9]}, "gateway"),
        ({}, "gateway"),
    ],
)
def test_what_a_gateway_held_when_it_and_its_broker_were_killed_is_the_brokers_loss(
    injected_at_ns: dict[str, list[int]], owes: str
) -> None:
    held = row("lost", "gateway", acknowledged_at_ns=2, received_at_ns=5, appended_at_ns=None)
    unread = row(
        "lost", "gateway", acknowledged_at_ns=None, received_at_ns=None, appended_at_ns=None, sequence=8
    )
    others = [*(row() for _ in range(6)), lost("link"), lost("broker"), unread]
    found = owed_by_broker([held, *others], injected_at_ns, {message_of(held): {0: 5}})
    assert found == [{**held, "hop": owes}, *others]
    assert len(broken(found, SAVED)) == (owes == "gateway")


@pytest.mark.parametrize(
    ("taken_at_ns", "injected_at_ns", "owes"),
    [
        ({1: 5}, {"second-gateway-kill": [7], "broker-kill": [9]}, "broker"),
        ({1: 5}, {"gateway-kill": [7], "broker-kill": [9]}, "gateway"),  # the second lives, and has it still
        (
            {0: 5, 1: 8},
            {"gateway-kill": [7], "broker-kill": [9]},
            "gateway",
        ),  # delivered again to one that lives
        ({0: 5, 1: 6}, {"gateway-stop": [7], "second-gateway-stop": [8], "broker-kill": [9]}, "broker"),
        ({0: 5, 1: 6}, {"backlog-kill": [7]}, "broker"),
        ({}, {"backlog-kill": [7]}, "gateway"),
    ],
)
def test_a_gateway_that_lives_is_not_excused_by_the_end_of_another(
    taken_at_ns: dict[int, int], injected_at_ns: dict[str, list[int]], owes: str
) -> None:
    held = row("lost", "gateway", acknowledged_at_ns=2, received_at_ns=5, appended_at_ns=None)
    (found,) = owed_by_broker([held], injected_at_ns, {message_of(held): taken_at_ns})
    assert found["hop"] == owes


def test_each_gateways_own_log_says_when_it_took_a_message_last(tmp_path: Path) -> None:
    held = row("lost", "gateway", received_at_ns=5)
    for number, stamps in ((0, (5, 9)), (1, (7,)), (10, (8,))):
        log = ReceiveLog(tmp_path / f"received-{number}.events")
        for at_ns in stamps:
            log.append(held["vehicle_id"].encode(), held["epoch"], held["sequence"], at_ns)
        log.append(held["vehicle_id"].encode(), held["epoch"], held["sequence"] + 1, 11)
        log.close()
    assert taken_at_ns(tmp_path, [held, row()]) == {message_of(held): {0: 9, 1: 7, 10: 8}}
    assert taken_at_ns(tmp_path, [row()]) == {}


def test_losses_are_held_against_what_each_end_of_the_broker_explains() -> None:
    def gone(sent_s: float, acknowledged_s: float, hop: str = "broker") -> dict[str, Any]:
        stamps = {"emitted_at_ns": int(sent_s * 1e9), "acknowledged_at_ns": int(acknowledged_s * 1e9)}
        return row("lost", hop, appended_at_ns=None, **stamps)

    s = 1_000_000_000
    rows = [gone(1, 3), gone(2, 4), gone(6.5, 7), gone(6, 7.5), gone(8, 9), gone(6, 7, "gateway"), row()]
    ends = [BrokerEnd(5 * s, 2 * s, 7 * s), BrokerEnd(15 * s, None, 16 * s), BrokerEnd(20 * s, 0)]
    nothing = {"unsaved_lost": 0, "first_unsaved_s": None, "unshared_lost": 0, "last_unshared_s": None}
    assert of_ends(rows, ends) == [
        {"unsaved_s": 3.0, "unsaved_lost": 2, "first_unsaved_s": 1.0}
        | {"unshared_s": 2.0, "unshared_lost": 2, "last_unshared_s": 0.5},
        nothing | {"unsaved_s": None, "unshared_s": 1.0},
        {"unsaved_s": None, "unsaved_lost": 1, "first_unsaved_s": None}
        | {"unshared_s": None, "unshared_lost": 0, "last_unshared_s": None},
    ]


class Told(NamedTuple):
    """A gateway's process, of which only its last words are read."""

    latest: dict[str, Any]


def test_the_gateways_own_words_say_when_one_was_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("gateway-0", "gateway-1")
    children = {name: Told({}) for name in names}
    saved_s: list[float | None] = [1.0]

    def run_of(gateways: int) -> Any:
        broker = SimpleNamespace(last_save_s=lambda: saved_s[0])
        components = SimpleNamespace(broker=broker, children=children, gateways=names)
        return SimpleNamespace(components=components, options=SimpleNamespace(gateways=gateways))

    monkeypatch.setattr(faults, "time", SimpleNamespace(time_ns=lambda: now_ns))
    ends, alone, run = BrokerEnds(), BrokerEnds(), run_of(2)
    now_ns = 5_000_000_000
    for fault in ("link-cut", "gateway-kill", "broker-kill"):
        ends.note(run, fault)
        alone.note(run_of(1), fault)
    children["gateway-0"].latest["progress"] = {"connected_at_ns": now_ns - 1}
    ends.watch(run)
    assert ends.found == [BrokerEnd(now_ns, 1_000_000_000)]
    now_ns = 8_000_000_000  # it ends once more, and nobody was there in between
    ends.note(run, "broker-stop")
    assert ends.found == [BrokerEnd(5_000_000_000, 1_000_000_000, now_ns), BrokerEnd(now_ns, None)]
    children["gateway-0"].latest["progress"] = {"connected_at_ns": now_ns + 20}
    ends.watch(run)
    assert ends.found[-1] == BrokerEnd(now_ns, None, now_ns + 20)
    children["gateway-1"].latest["progress"] = {"connected_at_ns": now_ns + 10}  # told late, and first
    children["gateway-0"].latest["progress"] = {"connected_at_ns": now_ns + 30}  # there a second time
    ends.watch(run)
    assert ends.found[-1] == BrokerEnd(now_ns, None, now_ns + 10)
    alone.watch(run_of(1))
    assert alone.found == [BrokerEnd(5_000_000_000, 1_000_000_000)]
    saved_s[0] = None
    alone.note(run_of(1), "broker-kill")
    assert len(alone.found) == 1


def test_a_mode_that_may_lose_may_lose_what_was_acknowledged() -> None:
    assert broken([lost(hop, acknowledged=True) for hop in ("broker", "gateway")], MAY_LOSE) == []
    for hop in ("vehicle", "link"):
        assert len(broken([lost(hop, acknowledged=True)], MAY_LOSE)) == 1


def test_what_a_gateway_answered_may_not_be_lost_even_where_the_mode_may_lose() -> None:
    assert broken([lost("link"), row()], ANSWERED) == []
    for hop in HOPS:
        assert len(broken([row(), lost(hop, acknowledged=True)], ANSWERED)) == 1


def test_a_system_that_never_comes_back_keeps_no_promise() -> None:
    unsent = [row("unsent") for _ in range(180)]
    assert "180 messages due 0" in broken(unsent, KEEPS)[0]
    ledger = [row() for _ in range(20)] + [row("unsent", due_at_ns=5_000) for _ in range(9)]
    for promise in PROMISES:
        assert judge(ledger, promise, 20, restored_at_ns=6_000).broken == []
        (line,) = judge(ledger, promise, 20, restored_at_ns=4_000).broken
        assert "of 9 messages due after the part was back 0 are in the twin" in line


@pytest.mark.parametrize("promise", PROMISES)
def test_a_loss_without_a_hop_is_broken_in_every_mode(promise: Promise) -> None:
    (line,) = broken([row(), lost(None)], promise)
    assert "without a hop" in line


@pytest.mark.parametrize("promise", PROMISES)
def test_what_kafka_has_and_the_twin_has_not_is_broken_in_every_mode(promise: Promise) -> None:
    (line,) = broken([row(), lost("kafka", in_kafka=True)], promise)
    assert "not in the twin" in line


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("twin_distinct", [1, 3])
def test_a_twin_that_counts_a_message_twice_or_not_is_broken(promise: Promise, twin_distinct: int) -> None:
    (line,) = broken([row(), row("late")], promise, twin_distinct)
    assert f"the twins count {twin_distinct}" in line


def test_a_fate_that_nobody_knows_and_an_empty_ledger_are_broken() -> None:
    assert "does not hold" in broken([row(), row("eaten")], MAY_LOSE)[0]
    assert broken([], MAY_LOSE) == ["the ledger is empty"]


@given(st.lists(st.tuples(st.sampled_from(FATES), st.sampled_from(HOPS), st.booleans()), min_size=1))
def test_counts_add_up_and_only_acknowledged_losses_break_keeps(rows: list[tuple[str, str, bool]]) -> None:
    ledger = [lost(hop, acknowledged=a) if fate == "lost" else row(fate) for fate, hop, a in rows]
    in_twin = sum(fate in {"delivered", "late"} for fate, _, _ in rows)
    judgement = judge(ledger, KEEPS, in_twin)
    assert sum(judgement.counts[fate] for fate in FATES) == judgement.counts["due"] == len(rows)
    assert sum(judgement.lost_by_hop.values()) == judgement.counts["lost"]
    missing = sum(fate == "lost" and acknowledged for fate, _, acknowledged in rows)
    assert judgement.acknowledged_and_lost == missing
    acknowledged_lines = [line for line in judgement.broken if "acknowledged" in line]
    assert bool(acknowledged_lines) == bool(missing)
    unknown = any(fate == "unknown" for fate, _, _ in rows)
    assert len(judgement.broken) == bool(missing) + unknown + (2 * in_twin < len(rows))


def test_duplicates_in_kafka_are_counted_and_break_nothing() -> None:
    judgement = judge([row(copies=3), row()], KEEPS, 2)
    assert judgement.duplicates == 2
    assert judgement.broken == []


def test_which_mode_promises_what_after_which_fault() -> None:
    kept = [("mqtt", "qos1"), ("mqtt", "qos2"), ("amqp", "manual-confirms-persistent"), ("coap", "con")]
    for protocol in PROTOCOLS.values():
        for mode in protocol.modes.values():
            for fault in FAULTS:
                promise = promise_of(protocol.name, mode, fault)
                shared = promise_of(protocol.name, mode, fault, gateways=2)
                name = mode.name.partition("-")[0] if protocol.name == "mqtt" else mode.name
                if (protocol.name, name) not in kept:
                    assert promise is (ANSWERED if protocol.name == "coap" else MAY_LOSE)
                elif protocol.name == "mqtt" and fault in {"broker-kill", "backlog-kill"}:
                    assert promise is SAVED
                else:
                    assert promise is KEEPS
                of_shares = protocol.name == "mqtt" and promise is not MAY_LOSE and fault in ENDS_OF_BROKER
                assert shared is (SHARED if of_shares else promise)


def test_every_case_of_all_is_a_run_that_outlasts_its_fault() -> None:
    cases = cases_of(None, None, None)
    assert len(cases) == (6 + 8) * 7 + 2 * 4
    assert {(case.protocol, case.mode) for case in cases} == {
        (protocol.name, mode) for protocol in PROTOCOLS.values() for mode in protocol.modes
    }
    for case in cases:
        options = options_of(case, seed=1)
        assert options.duration_s > 5 + FAULTS[case.fault].down_s
        assert options.loss_timeout_s > FAULTS[case.fault].down_s


def test_a_platform_has_faults_of_its_own_and_none_of_the_twins() -> None:
    cases = cases_of(None, None, None, platform="kafka")
    assert len(cases) == (6 + 8) * 6 + 2 * 3
    assert {case.fault for case in cases} == set(FAULTS) - {"kafka-kill", "spark-kill"}
    for case in cases:
        options = options_of(case, seed=1)
        assert (options.topology, options.platform) == ("ingest", "kafka")
        assert "through-kafka" in case.name


def test_what_redis_held_back_may_be_lost_at_the_platform_and_nothing_else() -> None:
    mode = PROTOCOLS["mqtt"].modes["qos1"]
    assert promise_of("mqtt", mode, "platform-kill", 1, "pulsar") is KEEPS
    assert promise_of("mqtt", mode, "gateway-kill", 1, "redis") is KEEPS
    assert promise_of("mqtt", PROTOCOLS["mqtt"].modes["qos0"], "platform-kill", 1, "redis") is MAY_LOSE
    promise = promise_of("mqtt", mode, "platform-kill", 1, "redis")
    # The platform had confirmed it.
    held_back = lost("platform", acknowledged=True, in_kafka=True)
    assert broken([*(row() for _ in range(3)), held_back], promise) == []
    assert broken([*(row() for _ in range(3)), held_back], KEEPS) != []
    assert broken([*(row() for _ in range(3)), lost("gateway", acknowledged=True)], promise) != []
    # Confirmed to a gateway that was killed before it noted it.
    assert broken([row(), row(appended_at_ns=None)], KEEPS) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"fault": "platform-kill"}, "--fault platform-kill: needs --platform, one of kafka, redis, pulsar"),
        (
            {"fault": "spark-kill", "platform": "kafka"},
            "--fault spark-kill: a run through --platform kafka has no twins, and no Kafka before them",
        ),
        ({"platform": "rabbit"}, "--platform 'rabbit': allowed are kafka, redis, pulsar"),
        (
            {"platform": "redis", "kafka_client": "aiokafka"},
            "--kafka-client aiokafka: needs --platform kafka; it is redis",
        ),
    ],
)
def test_a_fault_that_the_platform_has_not_is_refused(words: dict[str, str], says: str) -> None:
    with pytest.raises(Refusal) as refusal:
        cases_of(
            "mqtt",
            "qos1",
            words.get("fault"),
            1,
            words.get("kafka_client", "confluent"),
            words.get("platform"),
        )
    assert str(refusal.value) == says


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("http", None, None), "--protocol"),
        (("mqtt", "con", None), "--mode"),
        ((None, "qos1", None), "--protocol"),
        ((None, None, "rain"), "--fault"),
    ],
)
def test_a_word_that_no_table_has_is_refused(words: tuple[str | None, ...], named: str) -> None:
    with pytest.raises(Refusal, match=named):
        cases_of(*words)


def test_the_tables_fit_80_columns_and_say_why() -> None:
    hops = {"broker": 1234, "gateway": 5, "link": 66, "vehicle": 77}
    counts = {"due": 99_999, "delivered": 99_990, "late": 9, "lost": 1, "unsent": 1000}
    judged = {}
    for case in cases_of(None, None, None):
        reasons = ["12 messages (first: YV2RT40A8KB000001 7) acknowledged and lost, last seen at: link"]
        judged[case] = Judgement(case.promise().word, counts, hops, 1234, 5, reasons)
    page = io.StringIO()
    print_tables(Console(file=page, width=80), judged)
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(page.getvalue().split())
    for word in ("saved:", "may lose:", "mqtt qos2 (exactly once)", "BROKEN"):
        assert word in text
    assert "coap-con-link-cut broke its promise: 12 messages" in text


@pytest.mark.parametrize(("platform", "head"), [("", "in twin"), ("redis", "consumed")])
def test_a_table_says_where_messages_arrived(platform: str, head: str) -> None:
    case = Case("mqtt", "qos1", "gateway-kill", platform=platform)
    page = io.StringIO()
    print_tables(Console(file=page, width=80), {case: Judgement("keeps", {"due": 9, "delivered": 9})})
    columns = page.getvalue().partition("gateway-kill")[0]
    assert [word for word in ("in twin", "consumed") if word in columns] == [head]


def test_a_case_names_its_directory() -> None:
    assert Case("coap", "con", "link-cut").name == "coap-con-link-cut"
    assert Case("coap", "con", "link-cut", 2).name == "coap-con-link-cut-of-2-gateways"
    assert options_of(Case("coap", "con", "link-cut", 2), seed=1).gateways == 2
    by_java = Case("coap", "con", "link-cut", 2, "jpype")
    assert by_java.name == "coap-con-link-cut-of-2-gateways-by-jpype"
    assert options_of(by_java, seed=1).kafka_client == "jpype"


def test_what_is_unknown_is_neither_kept_nor_lost():
    unknown = [row("unknown", acknowledged_at_ns=2) for _ in range(3)]
    judgement = judge([*(row() for _ in range(9)), *unknown], KEEPS, 9)
    assert judgement.broken == ["the fate of 3 messages is unknown: nothing shows that they were kept"]
    assert (judgement.counts["unknown"], judgement.acknowledged_and_lost) == (3, 0)


def test_a_refused_message_breaks_no_promise():
    judgement = judge([*(row() for _ in range(9)), row("refused", "broker")], KEEPS, 9)
    assert judgement.broken == []
    assert (judgement.counts["refused"], judgement.lost_by_hop) == (1, {})
