"""Messages, plan and meter: pure."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.links import Condition, GilbertElliott, choose
from simulator.links import netlink as nl
from simulator.links.base import DELAY_MAX_MS, check
from simulator.links.counting import statistics
from simulator.links.distributions import values
from simulator.links.plan import Plan, shards_for
from simulator.links.queueing import FLOOR_BYTES, FRAME_BYTES, Meter, line_packets, queue_bytes_of, rate_bytes


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
    for read in (nl.errors, lambda b: list(statistics(b))):
        try:
            read(block)
        except struct.error:
            continue


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


def test_meter_keeps_rate_and_queue_through_an_outage():
    meter = Meter()
    meter.follow(Condition(20e6), 1.0)
    limit = meter.queue_bytes
    meter.follow(Condition(0.0), 2.0)
    assert (meter.held, meter.rate, meter.queue_bytes) == (True, 2_500_000, limit)
    meter.follow(Condition(1e6), 3.0)
    assert (meter.held, meter.rate, meter.queue_bytes) == (False, 125_000, limit)


@given(st.integers(1, FLOOR_BYTES - 1))
def test_rates_below_the_floor_are_right_in_the_mean(asked):
    meter, opened = Meter(), 0
    seconds = 2000
    for second in range(1, seconds + 1):
        meter.follow(Condition(asked * 8.0), float(second))
        opened += not meter.held
    assert abs(opened * FLOOR_BYTES - asked * seconds) <= FLOOR_BYTES


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
    plan = Plan("uplink", 3, 1, 2, [3], [2])
    assert len(list(plan.set_up())) > 3 * 5
    changes = list(plan.changes([(2, Condition(1e6, 30.0, 0.01))], 1.0))
    assert {(c.vehicle, c.direction) for c in changes} == {(2, "uplink")}
    kinds = [nl.kind_of(c.message) for c in changes]
    assert kinds[-2:] == ["class htb", "qdisc netem"]
