"""The message layer alone, on a clock and a link that the test plays: RFC 7252, 4, rule by rule."""

from __future__ import annotations

import ast
import heapq
import itertools
import random
from pathlib import Path

import hypothesis.strategies as st
import pytest
from aiocoap import Message
from aiocoap.numbers.codes import CHANGED, POST
from aiocoap.numbers.constants import TransportTuning
from aiocoap.numbers.types import CON
from hypothesis import given, settings

import gateways.protocols.coap as package
from gateways.protocols.coap import message_ids, message_layer
from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.message_ids import NextMessageIds
from gateways.protocols.coap.message_layer import MessageLayer, Upper
from gateways.protocols.coap.parameters import PARAMETERS

CLIENT, SERVER = Remote(("198.18.0.1", 40_000)), Remote(("198.19.0.1", 5683))


class Peer(Upper):
    """One end: notes what it is told, answers requests at once unless `hold` is set."""

    def __init__(self, clock, here):
        self.wire = []
        self.requests, self.responses, self.timeouts, self.resets, self.empty_acks = [], [], [], [], []
        self.over, self.heard_from = [], []
        self.hold = False
        self.expected = True
        self.newest = None
        self.here = here
        self.clock = clock
        self.layer = MessageLayer(self, lambda d, to: self.wire.append((d, to)), clock=lambda: clock.now_s)

    def process_request(self, request):
        self.requests.append(request)
        if not self.hold:
            self.layer.respond(request, Message(code=CHANGED), self.clock.now_s)

    def process_response(self, response):
        self.responses.append(response)
        return self.expected

    def timed_out(self, remote, messages):
        self.timeouts.append((remote, messages))

    def acknowledged_empty(self, remote, message_id):
        self.empty_acks.append(message_id)

    def exchange_over(self, remote):
        self.over.append(remote)

    def heard(self, remote):
        self.heard_from.append(remote)

    def newer(self, message):
        return self.newest

    def post(self, *, confirmable=True, payload=b"x", to=SERVER, token=b"t"):
        message = Message(code=POST, payload=payload)
        message.remote, message.token = to, token
        return self.layer.send(
            message, self.clock.now_s, confirmable=confirmable, reset=lambda: self.resets.append(message.mid)
        )

    def sent(self):
        """Return the datagrams put on the wire since the last call."""
        datagrams = [datagram for datagram, _ in self.wire]
        self.wire.clear()
        return datagrams


class Clock:
    now_s = 1000.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client(clock):
    return Peer(clock, CLIENT)


@pytest.fixture
def server(clock):
    return Peer(clock, SERVER)


def advance(peer, clock, until_s):
    """Let time pass; return (second, datagram) of everything sent."""
    seen = []
    while (deadline_s := peer.layer.next_deadline_s()) is not None and deadline_s <= until_s:
        clock.now_s = deadline_s
        peer.layer.expire(deadline_s)
        seen += [(deadline_s, datagram) for datagram in peer.sent()]
    clock.now_s = until_s
    return seen


def kind(datagram):
    return datagram[0] >> 4 & 3


def test_the_parameters_are_those_of_the_rfc_and_of_aiocoap():
    tuning = TransportTuning()
    assert (PARAMETERS.max_transmit_span_s, PARAMETERS.max_transmit_wait_s) == (45, 93)
    assert (PARAMETERS.max_rtt_s, PARAMETERS.exchange_lifetime_s, PARAMETERS.non_lifetime_s) == (
        202,
        247,
        145,
    )
    assert PARAMETERS.ack_timeout_s == tuning.ACK_TIMEOUT
    assert PARAMETERS.ack_random_factor == tuning.ACK_RANDOM_FACTOR
    assert PARAMETERS.max_retransmit == tuning.MAX_RETRANSMIT
    assert PARAMETERS.exchange_lifetime_s == tuning.EXCHANGE_LIFETIME
    assert PARAMETERS.empty_ack_delay_s == tuning.EMPTY_ACK_DELAY
    assert PARAMETERS.probing_rate_bytes_per_s == 1


@given(st.randoms())
def test_a_con_is_sent_five_times_at_doubling_intervals_and_then_given_up(rng):
    clock = Clock()
    client = Peer(clock, CLIENT)
    random.seed(rng.random())
    client.post()
    (first,) = client.sent()
    begin_s = clock.now_s
    later = advance(client, clock, begin_s + 200)
    assert {datagram for _, datagram in later} == {first}
    times_s = [begin_s, *(at_s for at_s, _ in later)]
    gaps_s = [b - a for a, b in itertools.pairwise(times_s)]
    assert len(gaps_s) == 4
    assert 2 <= gaps_s[0] <= 3
    assert gaps_s == pytest.approx([gaps_s[0] * 2**k for k in range(4)])
    assert times_s[-1] - begin_s <= PARAMETERS.max_transmit_span_s
    assert client.timeouts == [(SERVER, 1)]
    assert client.layer.next_deadline_s() is None


def test_an_acknowledgement_ends_the_retransmission(client, server, clock):
    client.post()
    server.layer.receive(client.sent()[0], CLIENT, clock.now_s)
    (answer,) = server.sent()
    client.layer.receive(answer, SERVER, clock.now_s)
    assert [r.code for r in client.responses] == [CHANGED]
    assert client.over == [SERVER]
    assert advance(client, clock, clock.now_s + 300) == []
    assert client.timeouts == []


def test_one_exchange_at_a_time_and_the_next_ones_in_order(client, server, clock):
    for payload in (b"1", b"2", b"3"):
        client.post(payload=payload)
    seen = []
    while datagrams := client.sent():
        assert len(datagrams) == 1, "NSTART = 1"
        server.layer.receive(datagrams[0], CLIENT, clock.now_s)
        (answer,) = server.sent()
        seen.append(server.requests[-1].payload)
        client.layer.receive(answer, SERVER, clock.now_s)
    assert seen == [b"1", b"2", b"3"]
    assert client.over == [SERVER], "told when none follows"


def test_what_waits_behind_an_exchange_that_is_given_up_is_given_up_too(client, clock):
    client.post()
    client.post()
    advance(client, clock, clock.now_s + 200)
    assert client.timeouts == [(SERVER, 2)]
    assert not client.layer.busy(SERVER)


@pytest.mark.parametrize("count", [9, 10, 11, 1_000])
@pytest.mark.parametrize("remotes", [1, 3, 1_000])
def test_what_awaits_an_acknowledgement_is_bounded_and_the_rest_is_told_when_asked_again(
    server, clock, monkeypatch, count, remotes
):
    """Strangers who acknowledge nothing: each separate response would wait behind the one before it."""
    monkeypatch.setattr(message_layer, "MAX_EXCHANGES", 10)
    server.hold = True
    requests = [Message(code=POST, _mtype=CON, _mid=number, _token=b"t").encode() for number in range(count)]
    where = [Remote(("198.18.0.2", number % remotes)) for number in range(count)]
    for request, remote in zip(requests, where, strict=True):
        server.layer.receive(request, remote, clock.now_s)
    advance(server, clock, clock.now_s + 1)
    for request in server.requests:
        server.layer.respond(request, Message(code=CHANGED), clock.now_s)
    layer = server.layer
    held = len(layer._exchanges) + sum(map(len, layer._waiting.values()))
    assert held == min(count, 10)
    assert layer.over_limit == max(0, count - 10)
    server.sent()
    layer.receive(requests[-1], where[-1], clock.now_s)
    (again,) = server.sent()
    assert decoded(again, CLIENT).code == CHANGED
    # What is acknowledged, given up or forgotten makes room.
    layer.forget(where[0])
    advance(server, clock, clock.now_s + 1_000)
    assert (layer._exchanges, layer._waiting) == ({}, {})
    server.post(to=CLIENT)
    server.post(to=CLIENT)
    acknowledge_all(server, clock)
    for _ in range(10):
        server.post(to=CLIENT)
    assert layer.over_limit == max(0, count - 10)
    server.post(to=CLIENT)
    assert layer.over_limit == max(0, count - 10) + 1


def acknowledge_all(peer, clock):
    """Answer each confirmable message on the wire, and those that follow it."""
    while sent := [datagram for datagram in peer.sent() if kind(datagram) == 0]:
        for datagram in sent:
            peer.layer.receive(b"\x60\x00" + datagram[2:4], CLIENT, clock.now_s)


def test_a_slow_answer_is_acknowledged_first_and_comes_as_a_con_of_its_own(client, server, clock):
    server.hold = True
    client.post()
    server.layer.receive(client.sent()[0], CLIENT, clock.now_s)
    assert server.sent() == []
    ((at_s, empty),) = advance(server, clock, clock.now_s + PARAMETERS.empty_ack_delay_s)
    assert at_s == pytest.approx(1000 + PARAMETERS.empty_ack_delay_s)
    assert (kind(empty), empty[1], len(empty)) == (2, 0, 4)
    client.layer.receive(empty, SERVER, clock.now_s)
    assert client.empty_acks == [server.requests[0].mid]
    server.layer.respond(server.requests[0], Message(code=CHANGED), clock.now_s)
    (separate,) = server.sent()
    assert kind(separate) == 0
    client.layer.receive(separate, SERVER, clock.now_s)
    (acknowledgement,) = client.sent()
    assert acknowledgement == b"\x60\x00" + separate[2:4]
    server.layer.receive(acknowledgement, CLIENT, clock.now_s)
    assert server.layer.next_deadline_s() is None


def test_a_duplicate_gets_the_same_answer_and_is_taken_once(client, server, clock):
    client.post()
    (request,) = client.sent()
    server.layer.receive(request, CLIENT, clock.now_s)
    (answer,) = server.sent()
    for _ in range(3):
        clock.now_s += 80
        server.layer.receive(request, CLIENT, clock.now_s)
        assert server.sent() == [answer]
    assert (len(server.requests), server.layer.duplicates) == (1, 3)
    clock.now_s += 2 * PARAMETERS.exchange_lifetime_s
    server.layer.receive(request, CLIENT, clock.now_s)
    assert len(server.requests) == 2, "a Message ID may be used again after EXCHANGE_LIFETIME"


def test_a_non_message_id_is_free_again_after_its_own_shorter_lifetime(client, server, clock):
    client.post(confirmable=False)
    (request,) = client.sent()
    for after_s, taken in ((140, 1), (26, 2)):
        server.layer.receive(request, CLIENT, clock.now_s)
        clock.now_s += after_s
        server.layer.receive(request, CLIENT, clock.now_s)
        assert len(server.requests) == taken
    assert {kind(datagram) for datagram in server.sent()} == {1}, "NON is answered by NON (5.2.3)"


def test_who_asks_again_after_an_empty_acknowledgement_is_told_the_answer(client, server, clock):
    """The separate response was lost for good; the repeated request, a duplicate, brings it after all."""
    server.hold = True
    exchange = client.post()
    (request,) = client.sent()
    server.layer.receive(request, CLIENT, clock.now_s)
    ((_, empty),) = advance(server, clock, clock.now_s + 1)
    client.layer.receive(empty, SERVER, clock.now_s)
    server.layer.respond(server.requests[0], Message(code=CHANGED), clock.now_s)
    advance(server, clock, clock.now_s + 100)
    assert server.timeouts == [(CLIENT, 1)]
    server.sent()
    client.layer.repeat(exchange, clock.now_s)
    assert client.sent() == [request]
    server.layer.receive(request, CLIENT, clock.now_s)
    (answer,) = server.sent()
    client.layer.receive(answer, SERVER, clock.now_s)
    assert [r.code for r in client.responses] == [CHANGED]
    assert len(server.requests) == 1


def test_a_duplicate_of_a_separate_response_is_acknowledged_again_and_a_strange_one_reset(client, clock):
    response = Message(code=CHANGED, _mid=7, _mtype=0, _token=b"t").encode()
    client.layer.receive(response, SERVER, clock.now_s)
    client.expected = False
    client.layer.receive(response, SERVER, clock.now_s)
    assert client.sent() == [b"\x60\x00\x00\x07"] * 2
    client.layer.receive(response[:2] + b"\x00\x08" + response[4:], SERVER, clock.now_s)
    assert client.sent() == [b"\x70\x00\x00\x08"]


@pytest.mark.parametrize("confirmable", [True, False])
def test_a_reset_finds_the_sender_of_con_and_non(client, clock, confirmable):
    client.post(confirmable=confirmable)
    (request,) = client.sent()
    reset = b"\x70\x00" + request[2:4]
    client.layer.receive(reset, SERVER, clock.now_s)
    client.layer.receive(reset, SERVER, clock.now_s)
    assert client.resets == [int.from_bytes(request[2:4], "big")]
    assert client.layer.next_deadline_s() is None


def test_a_newer_state_goes_out_in_place_of_a_retransmission(client, clock):
    client.post(payload=b"old")
    (old,) = client.sent()
    client.newest = Message(code=CHANGED, payload=b"new")
    client.newest.remote, client.newest.token = SERVER, b"t"
    sent = advance(client, clock, clock.now_s + 200)
    assert len(sent) == 4, "the count goes on"
    assert all(datagram.endswith(b"new") and datagram[2:4] != old[2:4] for _, datagram in sent)


@pytest.mark.parametrize(
    ("datagram", "answer"),
    [
        (b"\x40\x00\x12\x34", b"\x70\x00\x12\x34"),  # a ping (4.3)
        (b"\x50\x00\x12\x34", None),  # an Empty NON
        (b"\x40\x00\x12\x34\xff", b"\x70\x00\x12\x34"),  # an Empty CON with something in it
        (b"\x40\xe1\x12\x34", b"\x70\x00\x12\x34"),  # a reserved class
        (b"\x60\x02\x12\x34", None),  # a request in an acknowledgement
        (b"\x70\x44\x12\x34", None),  # a response in a Reset
        (b"\x80\x02\x12\x34", None),  # version 2
        (b"\x40", None),
    ],
)
def test_what_is_no_message_is_rejected_as_its_type_asks(server, clock, datagram, answer):
    server.layer.receive(datagram, CLIENT, clock.now_s)
    assert server.sent() == ([] if answer is None else [answer])
    assert (server.requests, server.responses) == ([], [])


def test_no_response_is_heeded(server, clock):
    """RFC 7967, 2.1: 2 is success, 8 a client's error."""
    for message_id, (value, kinds) in enumerate([(2, [2]), (8, [2]), (0, [2])]):
        request = Message(code=POST, _mid=message_id, _mtype=0, _token=b"t")
        request.opt.no_response = value
        server.layer.receive(request.encode(), CLIENT, clock.now_s)
        (answer,) = server.sent()
        assert [kind(answer)] == kinds
        assert (answer[1] == 0) == (value == 2)
    request = Message(code=POST, _mid=9, _mtype=1, _token=b"t")
    request.opt.no_response = 2
    server.layer.receive(request.encode(), CLIENT, clock.now_s)
    assert server.sent() == []


@pytest.mark.parametrize("count", [9, 10, 11, 1_000])
def test_the_next_message_ids_are_kept_of_so_many_remotes(monkeypatch, count):
    monkeypatch.setattr(message_ids, "MAX_PEERS", 10)
    following = NextMessageIds()
    first = [following.take(number) for number in range(count)]
    assert len(following._next) == min(count, 10)
    assert following.take(count - 1) == (first[-1] + 1) & 0xFFFF


def test_message_ids_are_counted_for_each_remote(clock):
    ids = NextMessageIds()
    taken = {remote: [ids.take(remote) for _ in range(1 << 16)] for remote in (CLIENT, SERVER)}
    for numbers in taken.values():
        assert len(set(numbers)) == 1 << 16


class BadLink:
    """Carries datagrams between two peers: loses some, doubles some, delays each by up to 3 s."""

    def __init__(self, rng, loss, *peers):
        self._rng, self._loss, self._peers = rng, loss, peers
        self._flying, self._order = [], itertools.count()

    def load(self, now_s):
        for peer, other in (self._peers, self._peers[::-1]):
            for datagram in peer.sent():
                for _ in range(self._rng.choice((1, 1, 2))):
                    if self._rng.random() >= self._loss:
                        at_s = now_s + self._rng.uniform(0, 3)
                        heapq.heappush(self._flying, (at_s, next(self._order), peer.here, other, datagram))

    def next_s(self):
        return [self._flying[0][0]] if self._flying else []

    def deliver(self, now_s):
        while self._flying and self._flying[0][0] <= now_s:
            _, _, sender, to, datagram = heapq.heappop(self._flying)
            to.layer.receive(datagram, sender, now_s)


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.floats(0, 0.6), st.floats(0, 1))
def test_a_link_that_loses_doubles_and_reorders_never_makes_two_of_one(rng, loss, answer_after_s):
    """Every request is taken at most once, and what the client counts as answered was taken."""
    clock = Clock()
    client, server = Peer(clock, CLIENT), Peer(clock, SERVER)
    server.hold = True
    link = BadLink(rng, loss, client, server)
    for number in range(8):
        client.post(payload=bytes([number]), token=bytes([number]))
    answers, answered = [], 0
    while True:
        link.load(clock.now_s)
        answers += [(clock.now_s + answer_after_s, r) for r in server.requests[len(answers) :]]
        due_s = [d for p in (client, server) if (d := p.layer.next_deadline_s()) is not None]
        times_s = [*link.next_s(), *due_s, *(at_s for at_s, _ in answers[answered : answered + 1])]
        if not times_s:
            break
        clock.now_s = max(clock.now_s, min(times_s))
        for at_s, request in answers[answered:]:
            if at_s <= clock.now_s:
                answered += 1
                server.layer.respond(request, Message(code=CHANGED), clock.now_s)
        link.deliver(clock.now_s)
        for peer in (client, server):
            peer.layer.expire(clock.now_s)
    taken = [request.payload for request in server.requests]
    assert len(taken) == len(set(taken))
    assert {response.token for response in client.responses} <= set(taken)
    assert len(taken) >= 8 - sum(count for _, count in client.timeouts)
    assert clock.now_s < 1000 + 8 * (PARAMETERS.max_transmit_wait_s + 10)


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_no_datagram_makes_the_layer_fail(datagrams):
    clock = Clock()
    server = Peer(clock, SERVER)
    for datagram in datagrams:
        server.layer.receive(datagram, CLIENT, clock.now_s)
    advance(server, clock, clock.now_s + 1000)
    assert all(decoded(datagram, CLIENT) is not None for datagram in server.sent())


def test_only_public_names_of_aiocoap_are_used():
    """Neither a private module or attribute of it, nor a class derived from one of its own."""
    for path in Path(package.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        theirs = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aiocoap":
                assert node.module in {"aiocoap", *PUBLIC_MODULES}, f"{path.name}: {node.module}"
                assert not any(alias.name.startswith("_") for alias in node.names), path.name
                theirs |= {alias.asname or alias.name for alias in node.names}
            if isinstance(node, ast.keyword) and node.arg is not None:
                assert not node.arg.startswith("_"), f"{path.name}: {node.arg}"
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)} - MADE_TO_BE_DERIVED
                assert not bases & theirs, path.name
            private = isinstance(node, ast.Attribute) and node.attr.startswith("_")
            if private and not node.attr.endswith("__"):
                assert isinstance(node.value, ast.Name), f"{path.name}: {ast.unparse(node)}"
                assert node.value.id in {"self", "cls"}, f"{path.name}: {ast.unparse(node)}"


# Their manual pages name these; the managers are not among them.
PUBLIC_MODULES = {
    "aiocoap.error",
    "aiocoap.message",
    "aiocoap.oscore",
    "aiocoap.numbers.codes",
    "aiocoap.numbers.optionnumbers",
    "aiocoap.numbers.types",
}
# OSCORE's security contexts are abstract: where numbers are kept (`post_seqnoincrease`) is for their users to say.
MADE_TO_BE_DERIVED = {"CanProtect", "CanUnprotect", "SecurityContextUtils"}
