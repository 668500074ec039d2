"""Messages, plan and meter: pure."""

import itertools
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.links import Condition, GilbertElliott, LinkError, choose, counting
from simulator.links import netlink as nl
from simulator.links.base import DELAY_MAX_MS, check
from simulator.links.counting import qdiscs
from simulator.links.distributions import values
from simulator.links.plan import STRAY_CLASS, Plan, shards_for
from simulator.links.queueing import (
    FLOOR_BYTES,
    FRAME_BYTES,
    UNLIMITED,
    Terms,
    burst_options,
    following,
    line_packets,
    netem_options,
    new_meters,
    queue_bytes_of,
    rate_bytes,
)
from simulator.links.uml import agent
from tests.simulator.links.row_by_row import LinkCounter, Meter, counters


def options_of(packed):
    found = nl.attributes(packed, 36, len(packed))
    return found[1], found[2]


def test_netem_message_is_the_sketchs_and_more():
    packed = nl.netem(7, 3, nl.NetemOptions(546875, 900, 42, rate_bytes=625000), create=False)
    assert struct.unpack_from("=IHHII", packed) == (len(packed), 36, 1, 0, 0)
    assert struct.unpack_from("=BBHiIII", packed, 16) == (0, 0, 0, 7, 3 << 16, 0x10003, 0)
    kind, options = options_of(packed)
    assert kind == b"netem\0"
    assert struct.unpack_from("=IIIIII", options) == (546875, 900, 42, 0, 0, 0)
    rest = nl.attributes(options, 24, len(options))
    assert rest[6] == struct.pack("=IiIi", 625000, 0, 0, 0)
    assert rest[3] == bytes(8)


def test_rates_above_32_bits_have_their_own_attribute():
    wide = 6_000_000_000
    _kind, options = options_of(nl.netem(1, 2, nl.NetemOptions(rate_bytes=wide), create=False))
    assert nl.attributes(options, 24, len(options))[8] == struct.pack("=Q", wide)
    _kind, options = options_of(nl.htb_class(1, 2, wide, 1, create=False))
    assert nl.attributes(options, 0, len(options))[6] == struct.pack("=Q", wide)


def test_gilbert_elliott_and_table_are_nested():
    model = nl.NetemOptions(table=struct.pack("=4h", 1, 2, 3, 4), gilbert_elliott=(1, 2, 3, 4))
    packed = nl.netem(1, 2, model, create=False)
    assert struct.unpack_from("=I", packed)[0] == len(packed)
    _kind, options = options_of(packed)
    rest = nl.attributes(options, 24, len(options))
    assert rest[2] == struct.pack("=4h", 1, 2, 3, 4)
    assert nl.attributes(rest[5], 0, len(rest[5]))[2] == struct.pack("=IIII", 1, 2, 3, 4)


@given(st.integers(1, 40), st.integers(1, 1000))
def test_only_the_last_message_asks_for_an_acknowledgement(count, first):
    block = nl.sequenced([nl.dump(nl.GETQDISC, k) for k in range(count)], first)
    found, offset = [], 0
    while offset < len(block):
        size, _kind, flags, sequence, _pid = struct.unpack_from("=IHHII", block, offset)
        found.append((sequence, bool(flags & nl.ACK)))
        offset += size
    assert found == [(first + k, k == count - 1) for k in range(count)]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_harm(block):
    for read in (nl.errors, lambda b: list(qdiscs(b))):
        try:
            read(block)
        except struct.error:
            continue


def qdisc_reply(
    kind: str, device: int, vehicle: int, counted: tuple[int, ...], options: bytes, inner: int | None = None
) -> bytes:
    """Return one message of a dump, as the kernel writes it (struct gnet_stats_basic and gnet_stats_queue in TCA_STATS2).

    `inner`: the handle's major of a netem that stands behind the vehicle's leaf.
    """
    sent_bytes, packets, drops, waiting_bytes, waiting = counted
    stats = nl.attribute(1, struct.pack("=QI", sent_bytes, packets))
    stats += nl.attribute(3, struct.pack("=IIIII", waiting, waiting_bytes, drops, 7, 9))
    major, parent = vehicle + 1, 1 << 16 | vehicle + 1
    if inner is not None:
        major, parent = inner, major << 16 | 1
    body = nl.TC.pack(0, 0, 0, device, major << 16, parent, 0)
    body += nl.text(1, kind) + nl.attribute(2, options) + nl.attribute(12, b"\0") + nl.attribute(7, stats)
    return nl.message(nl.NEWQDISC, 2, body)


def fleet_reply(vehicles: list[int], seed: int) -> tuple[bytes, list[Plan], list[LinkCounter]]:
    """Return a dump of two directions, its plans and what it says; options differ in size, as netem's do with its parameters."""
    drawn = random.Random(seed)
    plans = [Plan("uplink", 99, 1, 2, [10, 11], [20, 21]), Plan("downlink", 99, 2, 1, [12, 13], [22, 23])]
    dump, expected = [qdisc_reply("htb", device, -1, (1, 2, 3, 4, 5), b"") for device in range(10, 24)], []
    dump += [qdisc_reply("plug", 20, STRAY_CLASS - 1, (5, 5, 5, 5, 5), b"")]
    for plan, vehicle in itertools.product(plans, vehicles):
        line, queue = (
            tuple(drawn.choice([0, 1, drawn.randrange(2**32)]) for _ in range(5)) for _ in ("line", "queue")
        )
        line = (line[0] << 30, *line[1:])
        shard = plan.shard(vehicle)
        dump.append(qdisc_reply("netem", plan.lines[shard], vehicle, line, bytes(drawn.choice([8, 24, 31]))))
        dump.append(qdisc_reply("plug", plan.meters[shard], vehicle, queue, b""))
        if drawn.random() < 0.3:  # its handle may be another vehicle's number
            inner = drawn.choice([0x8000, drawn.randrange(2, 65_000)])
            dump.append(qdisc_reply("netem", plan.lines[shard], vehicle, (9, 9, 9, 9, 9), b"", inner))
        waiting = (line[3] + queue[3], line[4] + queue[4])
        expected.append(
            LinkCounter(vehicle, plan.direction, *line[:2], line[2] + queue[2], queue[2], *waiting)
        )
    drawn.shuffle(dump)
    return nl.sequenced(dump, 1), plans, expected


@given(st.lists(st.integers(1, 65_000), unique=True, max_size=12), st.integers(0, 10**6))
def test_every_vehicle_is_counted_from_a_dump_in_any_order(vehicles, seed):
    block, plans, expected = fleet_reply(vehicles, seed)
    assert sorted(counters(counting.read(block, plans))) == sorted(expected)
    assert len(block) % 4 == 0


def split(block):
    """Return the messages of a block."""
    return [block[start - 16 : end] for _, _, start, end in nl.messages(block)]


def without_number(message):
    """Return a message as it is before it is in a block."""
    return (
        message[:6]
        + struct.pack("=H", struct.unpack_from("=H", message, 6)[0] & ~nl.ACK)
        + bytes(4)
        + message[12:]
    )


def sent(plan, terms, conditions, at_s=1.0):
    """Send an update; return its messages in their order, each with its vehicle."""
    asked = [terms.number(condition, vehicle, plan.direction) for vehicle, condition in conditions.items()]
    change = plan.change(terms, np.array(list(conditions)), np.array(asked), at_s)
    plan.apply(change)
    found = []
    for block in change.messages:
        messages = split(block.packed)
        heads = [struct.unpack_from("=HI", message, 6) for message in messages]
        assert [number for _, number in heads] == list(range(1, len(messages) + 1))
        assert [bool(flags & nl.ACK) for flags, _ in heads] == [False] * (len(messages) - 1) + [True]
        found += zip(block.vehicles.tolist(), messages, strict=True)
    return found


def test_an_update_tells_the_kernel_what_has_changed_alone():
    plan, terms = Plan("uplink", 1, 1, 2, [3], [2]), Terms()
    slow, fast, far = Condition(8e5, 30.0), Condition(1.2e6, 30.0), Condition(1.2e6, 60.0)
    told = []
    for second, condition in enumerate([slow, slow, fast, far, far, Condition(0.0, 60.0), far, far]):
        told.append([nl.kind_of(message) for _, message in sent(plan, terms, {1: condition}, float(second))])
    meter, line, turn = "class htb", "qdisc netem", "qdisc plug"
    # The first sets the queue's limit, too; an outage keeps the rate, and holds the queue.
    assert told == [[turn, meter, line], [], [meter, line], [line], [], [turn, line], [line, turn], []]


def test_losses_in_bursts_have_a_netem_of_their_own_which_other_changes_leave_alone():
    plan, terms = Plan("uplink", 1, 1, 2, [3], [2]), Terms()
    bursts, longer = GilbertElliott(0.02, 0.2), GilbertElliott(0.01, 0.1)
    leaf, inner = (2 << 16, 1 << 16 | 2), (0, 2 << 16 | 1)
    told = []
    asked = [
        Condition(None, 5.0, gilbert_elliott=bursts),
        Condition(None, 6.0, gilbert_elliott=bursts),
        Condition(None, 6.0, gilbert_elliott=longer),
        Condition(None, 6.0, 0.5),
    ]
    for second, condition in enumerate(asked):
        netems = [
            one
            for _, one in sent(plan, terms, {1: condition}, float(second))
            if nl.kind_of(one) == "qdisc netem"
        ]
        told.append([(*struct.unpack_from("=II", one, 24), one) for one in netems])
    assert [[tuple(one[:2]) for one in each] for each in told] == [
        [leaf, inner], [inner], [leaf, inner], [leaf, inner]
    ]  # fmt: skip
    options = [options_of(one)[1] for each in told for *_, one in each]
    models = [5 in nl.attributes(one, 24, len(one)) for one in options]
    assert models == [True, False, False, True, False, False, False]
    losses = [struct.unpack_from("=I", options_of(one)[1], 8)[0] for *_, one in told[-1]]
    assert losses == [0, round(0.5 * 0xFFFFFFFF)]


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_model_that_begins_in_the_bad_state_is_the_same_model(to_bad, to_good, bad_loss, good_loss):
    bursts = GilbertElliott(to_bad, to_good, bad_loss, good_loss)
    good_first, bad_first = (burst_options(bursts, bad=bad).gilbert_elliott for bad in (False, True))
    p, r, h, k1 = (word / 0xFFFFFFFF for word in bad_first)
    assert [p, r, 1 - h, k1] == pytest.approx([to_good, to_bad, good_loss, bad_loss], abs=1e-8)
    p, r, h, k1 = (word / 0xFFFFFFFF for word in good_first)
    assert [p, r, 1 - h, k1] == pytest.approx([to_bad, to_good, bad_loss, good_loss], abs=1e-8)


def test_what_netem_is_told_is_packed_once_and_placed_for_each_vehicle():
    plan, terms = Plan("uplink", 3, 1, 2, [3], [2]), Terms()
    asked = [Condition(1e6 * k, 30.0, 0.01, jitter_ms=2.0, distribution="normal") for k in (1, 2)]
    for condition in [*asked, Condition(0.0, 5.0), *asked]:
        for vehicle in (1, 3):
            (change,) = (
                one for _, one in sent(plan, terms, {vehicle: condition}) if nl.kind_of(one) == "qdisc netem"
            )
            options = netem_options(condition, int(plan.state["rate"][vehicle - 1]))
            assert without_number(change) == nl.netem(2, vehicle + 1, options, create=False)


def test_a_delay_line_without_its_queue_is_an_error():
    block, plans, _ = fleet_reply([5], 1)
    line = qdisc_reply("netem", 20, 6, (1, 1, 0, 0, 0), b"")
    with pytest.raises(LinkError, match="counted 3 delay lines and 2 queues"):
        counting.read(block + line, plans)


@pytest.mark.parametrize("parts", [[36], [40, 60], [5_000], [5_000, 36], [16_384] * 28])
def test_an_agent_deflates_a_long_answer_whose_parts_have_the_same_room(parts):
    room, written = bytearray(16_384), []

    def replies():
        for number, size in enumerate(parts):
            room[:size] = bytes([number]) * size
            written.append(bytes(room[:size]))
            yield memoryview(room)[:size]

    answer, status = agent.packed(replies())
    assert status == (agent.PACKED if parts[0] >= agent.PACKED_FROM_BYTES else agent.DONE)
    assert (zlib.decompress(answer) if status == agent.PACKED else answer) == b"".join(written)


def test_error_reply_carries_the_kernels_words():
    words = nl.attribute(1, b"no such thing\0")
    body = struct.pack("=i", -22) + struct.pack("=IHHII", 100, 36, 1, 5, 0) + words
    reply = struct.pack("=IHHII", 16 + len(body), 2, 0x300, 5, 0) + body
    assert nl.errors(reply) == [nl.Reply(5, 22, "no such thing")]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition(loss_ratio=1.1), "loss_ratio 1.1: allowed 0 to 1"),
        (Condition(rate_bps=-1.0), "rate_bps -1: allowed 0 .outage. or 8"),
        (Condition(rate_bps=7.9), "rate_bps 7.9: allowed"),
        (Condition(rate_bps=float("nan")), "rate_bps nan: allowed"),
        (Condition(delay_ms=DELAY_MAX_MS + 1), "delay_ms 274001: allowed 0 to 274000 ms"),
        (Condition(delay_ms=-0.1), "delay_ms -0.1: allowed"),
        (Condition(jitter_ms=-1.0), "jitter_ms -1: allowed"),
        (Condition(distribution="gamma"), "distribution 'gamma': allowed uniform, normal"),
        (Condition(reorder_ratio=0.1), "reorder_ratio 0.1: needs a delay_ms above 0"),
        (Condition(queue_bytes=0), "queue_bytes 0: allowed 1"),
        (Condition(gilbert_elliott=GilbertElliott(2.0, 0.1)), "gilbert_elliott.good_to_bad_ratio 2: allowed"),
        (
            Condition(duplicate_ratio=0.1, gilbert_elliott=GilbertElliott(0.1, 0.1)),
            "duplicate_ratio 0.1: allowed 0 beside gilbert_elliott",
        ),
        (Condition(gilbert_elliott=GilbertElliott(0.0, 0.0)), "gilbert_elliott: one of its two transitions"),
    ],
)
def test_impossible_conditions_are_refused(condition, words):
    with pytest.raises(Refusal, match=f"YV2RT40A8KB000007 downlink: {words}"):
        check(condition, 7, "downlink")


@given(
    rate=st.none() | st.just(0.0) | st.floats(8, 1e11),
    delay=st.floats(0, DELAY_MAX_MS),
    loss=st.floats(0, 1),
)
def test_possible_conditions_pass_and_have_room(rate, delay, loss):
    condition = Condition(rate, delay, loss)
    check(condition, 1, "uplink")
    assert queue_bytes_of(condition) >= 100 * FRAME_BYTES
    if rate:
        # netem's limit never clips the delay line, even if all packets are of the smallest size.
        held = rate_bytes(rate) * delay / 1000 / 60
        assert line_packets(rate_bytes(rate), condition) >= min(held, 2_000_000)


def test_unknown_link_names_the_table():
    with pytest.raises(Refusal, match="link 'fibre': allowed auto, netem, uml, direct"):
        choose("fibre")


def test_shards_hold_at_most_128():
    assert [shards_for(n) for n in (1, 128, 129, 1000, 5000, 65000)] == [1, 1, 2, 8, 64, 512]


def meters_told(conditions, at_s):
    """Return what one meter is told for conditions that follow each other."""
    terms, meter = Terms(), new_meters(1)
    for condition, when in zip(conditions, at_s, strict=True):
        meter = following(meter, terms, np.array([terms.number(condition, 1, "uplink")]), when)
        yield meter[0]


def test_meter_keeps_rate_and_queue_through_an_outage():
    first, held, after = meters_told([Condition(20e6), Condition(0.0), Condition(1e6)], [1.0, 2.0, 3.0])
    limit = first["queue_bytes"]
    assert (held["held"], held["rate"], held["queue_bytes"]) == (True, 2_500_000, limit)
    assert (after["held"], after["rate"], after["queue_bytes"]) == (False, 125_000, limit)


RATES = st.none() | st.just(0.0) | st.floats(8, FLOOR_BYTES * 8 + 800) | st.floats(8, 1e11)
ASKED = st.builds(
    Condition,
    rate_bps=RATES,
    delay_ms=st.floats(0, 500),
    queue_bytes=st.none() | st.integers(1, 10**9),
    gilbert_elliott=st.sampled_from([None, None, GilbertElliott(0.02, 0.2), GilbertElliott(0.01, 0.1)]),
)


@given(st.lists(st.tuples(ASKED, st.floats(0.001, 3)), max_size=12))
def test_meters_in_columns_are_told_what_one_by_one_is_told(steps):
    at_s = list(itertools.accumulate((step[1] for step in steps), initial=1.0))[1:]
    one = Meter()
    found = meters_told([condition for condition, _ in steps], at_s)
    for (condition, _), when, told in zip(steps, at_s, found, strict=True):
        one = one.following(condition, when)
        assert (told["queue_bytes"], told["rate"] or None, told["held"]) == (
            one.queue_bytes, one.rate, one.held
        )  # fmt: skip
        assert told["credit_bytes"] == pytest.approx(one.credit_bytes)
        assert (told["nested"], told["bursts"] >= 0) == (one.nested, one.bursts is not None)


@given(st.lists(st.lists(ASKED, min_size=3, max_size=3), min_size=1, max_size=6))
def test_each_vehicle_of_a_fleet_is_told_what_it_would_be_told_alone(seconds):
    fleet, terms = Plan("uplink", 300, 1, 2, [10, 11, 12, 13], [20, 21, 22, 23]), Terms()
    whose = (1, 200, 300)  # of two blocks
    alone = [(Plan("uplink", 300, 1, 2, [10, 11, 12, 13], [20, 21, 22, 23]), Terms()) for _ in whose]
    for second, conditions in enumerate(seconds, start=1):
        asked = dict.fromkeys(range(1, 301), Condition(1e6, 1.0)) | dict(zip(whose, conditions, strict=True))
        random.seed(5)
        together = sent(fleet, terms, asked, float(second))
        for (plan, own), vehicle in zip(alone, whose, strict=True):
            expected = sent(plan, own, {vehicle: asked[vehicle]}, float(second))
            found = [one for number, one in together if number == vehicle]
            assert [as_alone(one) for one in found] == [as_alone(one) for _, one in expected]


def as_alone(message):
    """Return a message without its number, and without the state in which a model of bursts begins, which is drawn."""
    if nl.kind_of(message) == "qdisc netem":
        options = options_of(message)[1]
        if 5 in nl.attributes(options, 24, len(options)):
            return message[20:32]
    return without_number(message)


def test_rates_below_the_floor_are_right_in_the_mean():
    asked = np.arange(1, FLOOR_BYTES)
    terms, meters, opened, seconds = Terms(), new_meters(len(asked)), np.zeros(len(asked)), 2000
    numbers = np.array([terms.number(Condition(rate * 8.0), 1, "uplink") for rate in asked.tolist()])
    for second in range(1, seconds + 1):
        meters = following(meters, terms, numbers, float(second))
        opened += ~meters["held"]
    assert np.abs(opened * FLOOR_BYTES - asked * seconds).max() <= FLOOR_BYTES


@pytest.mark.parametrize("name", ["normal", "pareto", "paretonormal"])
def test_tables_are_those_that_iproute2_installs(name):
    found = [path for path in Path("/usr/lib").glob(f"**/tc/{name}.dist") if path.is_file()]
    table = values(name)
    assert len(table) == 4096
    assert list(table) == sorted(table)
    for path in found:  # on Debian and Ubuntu one; elsewhere the form alone is tested
        text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
        theirs = [int(word) for word in text.split()]
        assert max(abs(a - b) for a, b in zip(table, theirs, strict=True)) <= 2


def test_plan_changes_carry_their_vehicle_and_all_parameters():
    plan, terms = Plan("uplink", 3, 1, 2, [3], [2]), Terms()
    assert len(list(plan.set_up())) > 3 * 5
    number = terms.number(Condition(1e6, 30.0, 0.01), 2, "uplink")
    change = plan.change(terms, np.array([2]), np.array([number]), 1.0)
    assert {(whose, block.direction) for block in change.messages for whose in block.vehicles} == {
        (2, "uplink")
    }
    # Until it is sent, what was told before is in force.
    assert plan.state["rate"][1] == UNLIMITED
    plan.apply(change)
    assert plan.state["rate"].tolist() == [UNLIMITED, 125_000, UNLIMITED]
    kinds = [nl.kind_of(one) for one in split(change.messages[0].packed)]
    assert kinds[-2:] == ["class htb", "qdisc netem"]


def test_a_link_that_forgets_conditions_tells_everything_again():
    plan, terms = Plan("uplink", 1, 1, 2, [3], [2]), Terms()
    bursts = Condition(1e6, 30.0, gilbert_elliott=GilbertElliott(0.02, 0.2))
    calm = Condition(1e6, 30.0)
    assert sent(plan, terms, {1: bursts})
    assert sent(plan, terms, {1: bursts}) == []
    plan.forget()
    # Its losses in bursts end, whatever number their model had.
    told = [nl.kind_of(message) for _, message in sent(plan, Terms(), {1: calm})]
    assert told == ["qdisc netem", "qdisc netem"]
