"""Attribution case by case: who gets which frame."""

from __future__ import annotations

import frame_factory as make
import pytest

from schemas.errors import Refusal
from simulator.capture.attribution import AttributionOptions, Attributor
from simulator.capture.byte_totals import CELL_SIZE, LAYERS, PURPOSES, SHARES, STRIDE, cumulative
from simulator.capture.fields import Frames
from simulator.capture.parsers import DATAGRAM_PARSERS
from simulator.capture.tables import categories_table, messages_table
from simulator.capture.units import Verdict

SYN, ACK, PSH, FIN, RST = 2, 16, 8, 1, 4


class Dialogue:
    """A TCP connection by hand: what each side has sent so far is counted here."""

    def __init__(self, number=5, port=40000):
        self.number, self.port = number, port
        self.sent = {True: 1, False: 1}
        self.frames = []
        self.raw(True, 0, SYN, acknowledgement=0)
        self.raw(False, 0, SYN | ACK)
        self.raw(True, 1, ACK)

    def raw(self, up, sequence, flags, payload=b"", acknowledgement=None):
        reached = self.sent[not up] if acknowledgement is None else acknowledgement
        frame = make.tcp_frame(self.number, up, sequence, reached, flags, payload, port=self.port)
        self.frames.append(frame)
        return frame

    def say(self, up, payload):
        frame = self.raw(up, self.sent[up], ACK | PSH, payload)
        self.sent[up] += len(payload)
        return frame

    def acknowledge(self, up):
        return self.raw(up, self.sent[up], ACK)


def coap_on(*ports, **others):
    return AttributionOptions(datagram_ports={"coap": ports}, **others)


def attribute(frames, options=None, start_at_ns=0):
    attributor = Attributor(coap_on(5683) if options is None else options, start_at_ns)
    attributor.add(make.batch(frames))
    notes = attributor.finish()
    booked = sum(sum(cell[:CELL_SIZE]) for cell in attributor.totals.cells.values())
    assert booked == sum(map(len, frames))
    return attributor.totals, notes


def purposes(totals):
    found = {}
    for (_, _, direction), cell in totals.cells.items():
        for index, amount in enumerate(cell[:CELL_SIZE]):
            if amount:
                key = (PURPOSES[index // len(LAYERS)], direction)
                found[key] = found.get(key, 0) + amount
    return found


def share(totals, index, name, direction=0):
    return totals.messages.shares[index * STRIDE + direction * len(SHARES) + SHARES.index(name)]


def connected(level=5, **kwargs):
    talk = Dialogue(**kwargs)
    talk.say(True, make.mqtt_connect(level))
    talk.say(False, make.mqtt(2, b"\x00\x00\x00" if level == 5 else b"\x00\x00"))
    return talk


@pytest.mark.parametrize(("again_s", "known"), [(None, 0), (200, 1)])
def test_a_connection_that_repeats_its_end_is_waited_out_from_there(again_s, known):
    """An end that came once more 200 s later is no reason to take what follows it for a connection without a beginning."""
    attributor = Attributor(coap_on(5683), 0)
    talk = connected()
    talk.raw(True, talk.sent[True], FIN | ACK)
    talk.raw(False, talk.sent[False], FIN | ACK)
    attributor.add(make.batch(talk.frames))
    if again_s is not None:
        talk.frames.clear()
        attributor.add(make.batch([talk.raw(True, talk.sent[True], FIN | ACK)], [again_s * 10**9]))
    attributor.add(make.batch([make.udp_frame(6, True, b"of another vehicle")], [300 * 10**9]))
    assert len(attributor._connections) == known
    assert attributor.finish()["connections"] == 1


@pytest.mark.parametrize("level", [4, 5])
def test_one_publish_and_all_that_belongs_to_it(level):
    talk = connected(level)
    publish = make.mqtt_publish(b"p" * 100, 1, level=level)
    talk.say(True, publish)
    puback = talk.say(False, make.mqtt(4, b"\x00\x01"))
    ack = talk.acknowledge(True)
    totals, notes = attribute(talk.frames)
    assert len(totals.messages) == 1
    values = [share(totals, 0, name) for name in SHARES[:5]]
    assert values == [100, len(publish) - 100, 32, 20, 14]
    assert share(totals, 0, "acknowledgement_bytes", 1) == len(puback)
    assert share(totals, 0, "acknowledgement_bytes", 0) == len(ack)
    assert share(totals, 0, "tcp_acknowledgement_bytes", 0) == len(ack)
    assert share(totals, 0, "tcp_acknowledgement_bytes", 1) == 0
    assert totals.messages.reached_cloud_at_ns[0] == totals.messages.acknowledged_at_ns[0] > 0
    assert notes == {"connections": 1, "unreadable_connections": 0, "missed_bytes": 0}
    assert ("other", 0) not in purposes(totals)


def test_a_frame_with_two_messages_is_shared_by_bytes():
    talk = connected()
    first, second = make.mqtt_publish(b"a" * 200, 1), make.mqtt_publish(b"b" * 50, 2)
    talk.say(True, first + second)
    ack = talk.acknowledge(False)
    totals, _ = attribute(talk.frames)
    for name, whole in (("transport_bytes", 32), ("ip_bytes", 20), ("link_bytes", 14)):
        parts = [share(totals, k, name) for k in (0, 1)]
        assert parts == cumulative(whole, [len(first), len(second)])
    parts = [share(totals, k, "acknowledgement_bytes", 1) for k in (0, 1)]
    assert sum(parts) == len(ack)
    assert parts[0] > parts[1]


def test_a_repeated_segment_is_the_messages_retransmission():
    talk = connected()
    frame = talk.say(True, make.mqtt_publish(b"a" * 200, 1))
    talk.frames.append(frame)
    totals, _ = attribute(talk.frames)
    assert share(totals, 0, "retransmitted_bytes") == len(frame)
    assert share(totals, 0, "payload_bytes") == 200


def test_exactly_once_belongs_to_its_message_in_both_directions():
    talk = connected()
    talk.say(True, make.mqtt(3, make.mqtt_publish(b"a", 7)[2:], flags=4))
    parts = [talk.say(False, make.mqtt(5, b"\x00\x07")), talk.say(True, make.mqtt(6, b"\x00\x07", 2))]
    parts.append(talk.say(False, make.mqtt(7, b"\x00\x07")))
    totals, _ = attribute(talk.frames)
    assert share(totals, 0, "acknowledgement_bytes", 1) == len(parts[0]) + len(parts[2])
    assert share(totals, 0, "acknowledgement_bytes", 0) == len(parts[1])
    assert totals.messages.acknowledged_at_ns[0] == 10**9 + (len(talk.frames) - 1) * 10**6


def test_redelivery_after_a_reconnect_is_no_second_message():
    first = connected()
    first.say(True, make.mqtt_publish(b"a" * 9, 1))
    second = connected(port=40001)
    again = second.say(True, make.mqtt_publish(b"a" * 9, 1, dup=True))
    second.say(False, make.mqtt(4, b"\x00\x01"))
    second.say(True, make.mqtt_publish(b"b" * 9, 1))
    totals, _ = attribute(first.frames + second.frames)
    assert list(totals.messages.connection) == [0, 1]
    assert list(totals.messages.order) == [0, 0]
    assert share(totals, 0, "retransmitted_bytes") == len(again)
    assert totals.messages.acknowledged_at_ns[0] > 0
    assert totals.messages.reached_cloud_at_ns[0] > 0  # the copy that came through counts


def test_a_message_cut_off_is_there_and_not_complete():
    talk = connected()
    talk.say(True, make.mqtt_publish(b"a" * 300, 1)[:200])
    talk.acknowledge(False)
    totals, _ = attribute(talk.frames)
    row = messages_table(totals).to_pylist()[0]
    assert (row["complete"], row["reached_cloud_at_ns"]) == (False, None)
    assert row["payload_bytes_uplink"] + row["protocol_bytes_uplink"] == 200


def test_keep_alives_of_both_layers():
    talk = connected()
    ping = talk.say(True, make.mqtt(12, b""))
    probe = talk.raw(False, talk.sent[False] - 1, ACK)
    answer = talk.acknowledge(True)
    totals, _ = attribute(talk.frames)
    assert purposes(totals)["keep_alive", 0] == len(ping) + len(answer)
    assert purposes(totals)["keep_alive", 1] == len(probe)


def test_amqp_confirms_one_and_many():
    talk = Dialogue()
    talk.say(True, b"AMQP\x00\x00\x09\x01")
    talk.say(True, make.amqp_frame(1, 1, b"\x00\x55\x00\x0a\x00"))
    for k in range(4):
        talk.say(True, make.amqp_publish(bytes([k]) * (300 * k), frame_max=500))
    one = talk.say(False, make.amqp_ack(1))
    many = talk.say(False, make.amqp_ack(4, multiple=True))
    beat = talk.say(True, make.amqp_frame(8, 0, b""))
    totals, _ = attribute(talk.frames)
    assert [share(totals, k, "payload_bytes") for k in range(4)] == [0, 300, 600, 900]
    assert all(totals.messages.complete)
    assert all(totals.messages.acknowledged_at_ns)
    assert share(totals, 0, "acknowledgement_bytes", 1) == len(one)
    assert sum(share(totals, k, "acknowledgement_bytes", 1) for k in (1, 2, 3)) == len(many)
    assert purposes(totals)["keep_alive", 0] == len(beat)


def test_amqp_tag_zero_confirms_all():
    talk = Dialogue()
    talk.say(True, b"AMQP\x00\x00\x09\x01" + make.amqp_frame(1, 1, b"\x00\x55\x00\x0a\x00"))
    talk.say(True, make.amqp_publish(b"a") + make.amqp_publish(b"b"))
    talk.say(False, make.amqp_ack(0, multiple=True))
    totals, _ = attribute(talk.frames)
    assert all(totals.messages.acknowledged_at_ns)


def test_a_repeated_acknowledgement_asks_for_the_message_that_is_missing():
    talk = connected()
    talk.say(True, make.mqtt_publish(b"a" * 50, 1))
    talk.acknowledge(False)
    reached = talk.sent[True]
    talk.say(True, make.mqtt_publish(b"b" * 50, 2))  # lost behind the capture
    talk.say(True, make.mqtt_publish(b"c" * 50, 3))
    again = talk.raw(False, talk.sent[False], ACK, acknowledgement=reached)
    totals, _ = attribute(talk.frames)
    assert share(totals, 1, "acknowledgement_bytes", 1) == len(again)
    assert list(totals.messages.reached_cloud_at_ns)[1:] == [0, 0]


def test_a_capture_without_messages_has_empty_tables():
    totals, _ = attribute([make.udp_frame(5, True, b"x", far=7)])
    assert messages_table(totals).num_rows == 0
    assert categories_table(totals).num_rows == 4


def test_tls_is_opaque_and_still_counted():
    talk = Dialogue()
    hello = talk.say(True, b"\x16\x03\x01" + bytes(100))
    talk.frames.append(hello)
    talk.say(False, b"\x16\x03\x03" + bytes(50))
    ack = talk.acknowledge(True)
    totals, notes = attribute(talk.frames)
    assert notes["unreadable_connections"] == 1
    assert len(totals.messages) == 0
    assert purposes(totals)["opaque", 0] == purposes(totals)["retransmission", 0] == len(hello)
    assert purposes(totals)["acknowledgement", 0] == len(ack)


def test_a_capture_that_joins_late_guesses_nothing():
    talk = connected()
    talk.say(True, make.mqtt_publish(b"a", 1))
    totals, notes = attribute(talk.frames[5:])
    assert notes["unreadable_connections"] == 1
    assert len(totals.messages) == 0


def test_bytes_that_the_capture_missed_are_named():
    talk = connected()
    lost = make.mqtt_publish(b"a" * 60, 1)
    talk.say(True, lost)
    talk.frames.pop()
    talk.acknowledge(False)
    talk.say(True, make.mqtt_publish(b"b" * 60, 2))
    totals, notes = attribute(talk.frames)
    assert notes["missed_bytes"] == len(lost)
    assert len(totals.messages) == 0


def test_ports_used_again_are_another_connection():
    first, second = connected(), connected()
    first.say(True, make.mqtt_publish(b"a", 1))
    second.frames[0] = make.tcp_frame(5, True, 2**31, 0, SYN)
    second.frames = [make.tcp_frame(5, True, 2**31, 0, SYN)]
    totals, notes = attribute(first.frames + second.frames)
    assert notes["connections"] == 2
    assert len(totals.messages) == 1


def test_probes_are_apart():
    options = AttributionOptions(probe_ports=(9000,))
    echo = make.ethernet(make.ipv4(make.vehicle(5), make.CLOUD, 1, b"\x08" + bytes(63)))
    frames = [make.udp_frame(5, True, bytes(32), far=9000), echo, make.udp_frame(5, True, b"x", far=7)]
    totals, _ = attribute(frames, options)
    assert purposes(totals) == {("probe", 0): len(frames[0]) + len(echo), ("other", 0): len(frames[2])}


def test_an_echo_is_charged_to_the_message_that_comes_back():
    talk = connected()
    talk.say(True, make.mqtt_publish(b"one", 1))
    talk.say(True, make.mqtt_publish(b"two", 2))
    back = make.mqtt_publish(b"one", 9)
    talk.say(False, back)
    acknowledgement = talk.say(True, make.mqtt(4, b"\x00\x09"))
    totals, _ = attribute(talk.frames, AttributionOptions(echo=True))
    assert share(totals, 0, "payload_bytes", 1) == 3
    assert share(totals, 0, "protocol_bytes", 1) == len(back) - 3
    assert share(totals, 0, "acknowledgement_bytes", 0) == len(acknowledgement)
    assert share(totals, 1, "payload_bytes", 1) == 0


def coap(kind, code, identifier, token=b"", options=b"", payload=b""):
    head = bytes([0x40 | kind << 4 | len(token), code]) + identifier.to_bytes(2, "big") + token
    return head + options + (b"\xff" + payload if payload else b"")


BLOCK_0, BLOCK_1 = b"\xd1\x0e\x0a", b"\xd1\x0e\x12"  # Block1: 0/more/64, 1/last/64


def test_coap_blocks_repeats_and_a_separate_response():
    frames = [
        make.udp_frame(5, True, coap(0, 2, 1, b"a", BLOCK_0, b"x" * 64)),
        make.udp_frame(5, True, coap(0, 2, 1, b"a", BLOCK_0, b"x" * 64)),
        make.udp_frame(5, False, coap(2, 95, 1, b"a")),
        make.udp_frame(5, True, coap(0, 2, 2, b"b", BLOCK_1, b"y" * 5)),
        make.udp_frame(5, False, coap(2, 0, 2)),
        make.udp_frame(5, False, coap(0, 68, 900, b"b")),
        make.udp_frame(5, True, coap(2, 0, 900)),
        make.udp_frame(5, True, coap(0, 0, 3)),
        make.udp_frame(5, False, coap(3, 0, 3)),
    ]
    totals, _ = attribute(frames)
    messages = totals.messages
    assert len(messages) == 1
    assert messages.complete[0]
    assert share(totals, 0, "payload_bytes") == 69
    assert share(totals, 0, "retransmitted_bytes") == len(frames[1])
    assert share(totals, 0, "acknowledgement_bytes", 1) == sum(len(frames[k]) for k in (2, 4, 5))
    assert share(totals, 0, "acknowledgement_bytes", 0) == len(frames[6])
    assert messages.reached_cloud_at_ns[0] == 10**9 + 4 * 10**6
    assert messages.acknowledged_at_ns[0] == 10**9 + 5 * 10**6
    assert purposes(totals)["keep_alive", 0] == len(frames[7])
    assert purposes(totals)["keep_alive", 1] == len(frames[8])


@pytest.mark.parametrize("refusal", [0x88, 0xA3], ids=["4.08", "5.03"])
def test_coap_that_the_server_asks_for_again_is_the_same_message(refusal):
    frames = [
        make.udp_frame(5, True, coap(0, 2, 1, b"\x01", b"", b"same")),
        make.udp_frame(5, False, coap(2, refusal, 1, b"\x01")),
        make.udp_frame(5, True, coap(0, 2, 2, b"\x02", b"", b"same")),
        make.udp_frame(5, False, coap(2, 68, 2, b"\x02")),
        make.udp_frame(5, True, coap(0, 2, 3, b"\x03", b"", b"same")),
    ]
    totals, _ = attribute(frames)
    assert len(totals.messages) == 2
    assert share(totals, 0, "retransmitted_bytes") == len(frames[2])
    assert totals.messages.acknowledged_at_ns[0] > 0


def test_datagrams_are_read_on_the_ports_of_their_protocol_alone():
    def post(far):
        return make.udp_frame(5, True, coap(0, 2, 1, b"\x01", b"", b"told"), far=far)

    options = AttributionOptions(datagram_ports={"coap": (61616,), "no parser's": (5683,)})
    totals, _ = attribute([post(61616), post(5683)], options)
    assert len(totals.messages) == 1
    assert purposes(totals) == {("message", 0): len(post(61616)), ("other", 0): len(post(5683))}


class ToyFlow:
    """Every datagram from a vehicle is a message of one byte of header; nothing is protected."""

    handshakes = ()

    def __init__(self, publications):
        self._publications = publications

    def take(self, direction, data, at_ns):
        return Verdict(PURPOSES.index("message"), self._publications.publish(), 1)


def test_a_protocol_of_datagrams_is_read_with_one_line_in_the_table(monkeypatch):
    frame = make.udp_frame(5, True, b"Mtold", far=7)
    options = AttributionOptions(datagram_ports={"toy": (7,)})
    unread, _ = attribute([frame], options)
    assert purposes(unread) == {("other", 0): len(frame)}
    monkeypatch.setitem(DATAGRAM_PARSERS, "toy", ToyFlow)
    totals, _ = attribute([frame], options)
    assert purposes(totals) == {("message", 0): len(frame)}
    assert messages_table(totals)["protocol"].to_pylist() == ["toy"]
    assert share(totals, 0, "payload_bytes") == 4


def test_coap_messages_that_begin_alike_are_not_one():
    """In blocks of 16 bytes every message of a vehicle begins with the same bytes."""
    frames = [make.udp_frame(5, True, coap(1, 2, k, bytes([k]), b"\xd1\x0e\x08", b"v" * 16)) for k in (1, 2)]
    totals, _ = attribute(frames)
    assert len(totals.messages) == 2
    assert share(totals, 0, "retransmitted_bytes") == 0


def test_coap_uploads_at_once_are_told_apart_by_request_tag():
    """NON does not wait for a lost answer: the second upload's blocks come between the first one's."""

    def block(number, tag=b"", *, last=False):
        value = bytes([number << 4 | (0 if last else 8)])
        # Block1 is 27; Request-Tag is 292, 265 further on (delta of two bytes: 265 - 13 = 252).
        return b"\xd1\x0e" + value + (b"" if not tag else b"\xd1\xfc" + tag)

    def post(identifier, options, payload):
        return make.udp_frame(5, True, coap(1, 2, identifier, bytes([identifier]), options, payload))

    frames = [
        post(1, block(0), b"a" * 16),
        post(2, block(0, b"\x07"), b"b" * 16),
        post(3, b"", b"whole, between them"),
        make.udp_frame(5, False, coap(1, 95, 71, b"\x01")),
        post(4, block(1), b"A" * 16),
        post(5, block(1, b"\x07", last=True), b"B" * 3),
        make.udp_frame(5, False, coap(1, 68, 72, b"\x05")),
        post(6, block(2, last=True), b"AA"),
        make.udp_frame(5, False, coap(1, 68, 73, b"\x06")),
    ]
    totals, _ = attribute(frames)
    messages = totals.messages
    assert len(messages) == 3
    assert [share(totals, k, "payload_bytes") for k in range(3)] == [34, 19, 19]
    assert list(messages.complete) == [1, 1, 1]
    assert messages.acknowledged_at_ns[0] > messages.acknowledged_at_ns[1] > 0
    assert messages.acknowledged_at_ns[2] == 0


def test_coap_notification_finds_its_message():
    observe = b"\x60"
    frames = [
        make.udp_frame(5, True, coap(0, 1, 1, b"o", observe), port=51000),
        make.udp_frame(5, False, coap(2, 69, 1, b"o", b"\x61\x01"), port=51000),
        make.udp_frame(5, True, coap(1, 2, 1, b"p", b"", b"news")),
        make.udp_frame(5, False, coap(1, 69, 70, b"o", b"\x61\x02", b"news"), port=51000),
    ]
    totals, _ = attribute(frames, coap_on(5683, echo=True))
    assert len(totals.messages) == 1
    assert share(totals, 0, "payload_bytes", 1) == 4
    assert purposes(totals)["connection", 0] == len(frames[0])


def test_fragments_follow_the_first_one():
    body = coap(1, 2, 1, b"", b"", b"z" * 100)
    first = make.udp_frame(5, True, body, fragment=0x2000, identity=9)
    rest = make.ethernet(make.ipv4(make.vehicle(5), make.CLOUD, 17, bytes(40), identity=9, fragment=20))
    totals, _ = attribute([first, rest])
    assert share(totals, 0, "payload_bytes") + share(totals, 0, "protocol_bytes") == len(body) + 40


def test_cut_frames_are_refused():
    whole = make.batch([make.udp_frame(1, True, bytes(100))])
    cut = Frames(whole.buffer, whole.offsets, whole.captured_bytes - 50, whole.link_bytes, whole.at_ns)
    with pytest.raises(Refusal, match="snap_bytes"):
        Attributor().add(cut)


def test_what_belongs_to_no_message_is_spread_evenly():
    talk = connected()
    for k in (1, 2, 3):
        talk.say(True, make.mqtt_publish(b"abc", k))
    probe = make.udp_frame(5, True, bytes(32), far=9000)
    totals, _ = attribute([*talk.frames, probe], AttributionOptions(probe_ports=(9000,)))
    table = messages_table(totals)
    spread = table["unattributed_bytes_uplink"].to_pylist()
    assert max(spread) - min(spread) <= 1
    assert sum(spread) == purposes(totals)["connection", 0]
    total = sum(
        sum(table[f"{name}_{way}"].to_pylist())
        for name in (*SHARES[:7], "unattributed_bytes")
        for way in ("uplink", "downlink")
    )
    assert total == sum(map(len, talk.frames))
    assert sum(categories_table(totals)["bytes"].to_pylist()) == total + len(probe)
