"""Why claims of the paper are contradicted here: sentences whose numbers, and premises, are of this run.

Each function returns the sentences that the results bear out; one whose premise does not hold, or whose control was
not measured, is left out. What a protocol's document says needs no premise.
"""

# ruff: noqa: ISC004 - sentences of several lines read better unbroken

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ivsim.papers.ifip2020.codec_claims import CURRENT_STATUS, FLAT, PROTO
from ivsim.papers.ifip2020.decisions import BYTES, AllObservations, some
from ivsim.papers.ifip2020.latency_claims import PAPER_RTT
from ivsim.papers.ifip2020.paper import (
    BLOCK_BYTES,
    CON,
    FACTORS,
    LOSSES,
    MESSAGE_BYTES,
    MODES,
    NON,
    SIZES,
    TCP,
    PaperCells,
    WholeCells,
    at,
    percent,
)
from ivsim.study.claims import AGREE, DEPENDS, DISAGREE, Decided, judged_together
from ivsim.study.engines.echo.observations import EchoObservations, compare_latency
from ivsim.study.summary import short

Reason = Callable[[AllObservations, Decided], list[str]]
# What the paper shows for *large* CoAP NON, in ms.
PAPER_NON_MS: Final = (150, 200)
HIGH_LOSSES: Final = LOSSES[3:]
MANY: Final = 0.3


def reasons(observations: AllObservations, decided: Sequence[Decided]) -> dict[int, list[str]]:
    """Return number -> sentences, of the claims that are contradicted, or are in one of their settings."""
    observations.claims = len(decided)
    return {
        one.number: REASONS[one.number](observations, one)
        for one in decided
        if one.verdict in (DISAGREE, DEPENDS)
    }


def _mean_ms(cell: EchoObservations | None) -> float | None:
    return None if cell is None else cell.latency().estimate


def _share(cell: EchoObservations | None) -> str:
    return "not measured" if cell is None or not cell.due else f"{cell.missing / cell.due:.1%}"


def _blocks(observations: AllObservations) -> list[str]:
    """Say that *large* messages take more than one block, when they do."""
    cell = at(observations.sent, "large", NON, 0.0) or at(observations.sent, "large", CON, 0.0)
    means = [] if cell is None else [kept.figures.get("payload_bytes_mean") for kept in cell.repetitions]
    known = [float(mean) for mean in means if mean is not None]
    if not known or min(known) <= BLOCK_BYTES:
        return []
    return [
        f"CoAP carries at most {BLOCK_BYTES:,} bytes in one block (RFC 7959), and *large* messages have {known[0]:,.0f} in"
        " the mean: the POST takes two blocks and an answer between them, and the receiver has to fetch the rest of each"
        " notification with a request of its own."
    ]


def _whole(observations: PaperCells, loss: float) -> dict[str, float]:
    """Return the means of *large* by mode, CoAP's in one datagram."""
    cells = WholeCells(observations)
    means = {mode: _mean_ms(at(cells, "large", mode, loss)) for mode in MODES}
    return {mode: mean for mode, mean in means.items() if mean is not None}


def lowest_non(observations: AllObservations, _decided: Decided) -> list[str]:
    found = _blocks(observations)
    if found:
        low, high = PAPER_NON_MS
        found.append(
            f"That is one round trip more each way, for which the paper's {low} to {high} ms leave no room."
        )
    measured = {
        loss: means for loss in LOSSES if NON in (means := _whole(observations.sent, loss)) and len(means) > 1
    }
    lowest = [loss for loss, means in measured.items() if min(means, key=lambda mode: means[mode]) == NON]
    if measured:
        found.append(
            f"In one datagram NON has the lowest mean at {len(lowest)} of the {len(measured)} loss rates measured."
        )
    return found


def flat_non(observations: AllObservations, _decided: Decided) -> list[str]:
    found = _blocks(observations)
    still, lossy = (_whole(observations.sent, loss).get(NON) for loss in (0.0, 0.25))
    if still is not None and lossy is not None:
        found.append(f"In one datagram NON's mean at 25 % loss is {lossy / still:.2f} times that at 0 %.")
    return found


def small_below_large(_observations: AllObservations, decided: Decided) -> list[str]:
    contrary = [finding.text for finding in decided.findings if finding.verdict == DISAGREE]
    if all(any(f" {percent(loss)}:" in text for loss in HIGH_LOSSES) for text in contrary):
        return [
            f"What contradicts it, {len(contrary)} of {len(decided.findings)}, is at 10 % loss and above: there a mean"
            " hangs on few messages that TCP or CON sent again several times, and these do not depend on size."
        ]
    return []


def growth_con(observations: AllObservations, _decided: Decided) -> list[str]:
    found = [
        "CON waits 2 to 3 s before it sends again, doubling each time (RFC 7252, 4.8): how far that pulls the mean up"
        " depends on the few messages that needed several attempts."
    ]
    ratios = []
    for counted in (observations.sent, observations.due):
        still, lossy = (_mean_ms(at(counted, "small", CON, loss)) for loss in (0.0, 0.25))
        if still and lossy is not None:
            ratios.append(lossy / still)
    if len(ratios) == 2:
        found.append(
            f"From sent its mean grows {ratios[0]:.1f}-fold; from due, with the wait for the exchange before"
            f" (NSTART = 1), {ratios[1]:.1f}-fold."
        )
    return found


def near_con(observations: AllObservations, decided: Decided) -> list[str]:
    found = _blocks(observations)
    near = [
        f.text.split(", ")[1] for f in decided.findings if f.text.startswith("small") and f.verdict == AGREE
    ]
    if near:
        found.append(f"*Small* CON is near the TCP protocols at {' and '.join(near)} loss.")
    return found


def tcp_delivers(observations: AllObservations, _decided: Decided) -> list[str]:
    cells = [at(observations.sent, size, mode, loss) for size in SIZES for mode in TCP for loss in LOSSES]
    count = sum(cell.overtaken for cell in cells if cell is not None)
    return [f"{count} messages of TCP protocols were overtaken by a later one of their vehicle."]


def non_loses(observations: AllObservations, _decided: Decided) -> list[str]:
    found = _blocks(observations)
    if found:
        pairs = [
            f"{_share(at(observations.sent, 'large', NON, loss))} at {percent(loss)} (predicted {1 - (1 - loss) ** 3:.1%})"
            for loss in LOSSES[1:]
        ]
        found.append(
            "With loss only on what leaves the cloud, three datagrams have to come through for one *large* message (the"
            " answer to the first block, the notification, its second block), which predicts 1 - (1 - p)^3 lost:"
            f" {', '.join(pairs)}."
        )
    cells = WholeCells(observations.sent)
    whole = [(loss, at(cells, "large", NON, loss)) for loss in LOSSES[1:]]
    shares = [f"{_share(cell)} at {percent(loss)}" for loss, cell in whole if cell is not None]
    if shares:
        found.append(f"In one datagram {', '.join(shares)} are lost.")
    return found


def con_loses(observations: AllObservations, _decided: Decided) -> list[str]:
    shares = [
        f"{_share(cell)} at {percent(loss)} (p^3 = {loss**3:.2%})"
        for loss in LOSSES[1:]
        if (cell := at(observations.sent, "small", CON, loss)) is not None
    ]
    found = [
        "A notification is sent again after 2 to 3 s and after 4 to 6 s more; when all three are lost and the next message"
        " has come, its state takes the place of the old one (RFC 7641, 4.5.2) and the old message is gone: about p^3 of"
        " the messages with p one way, more of *large* for its blocks."
    ]
    return [*found, f"Of *small* {', '.join(shares)} were lost."] if shares else found


def overhead_order(observations: AllObservations, _decided: Decided) -> list[str]:
    found = []
    for size in SIZES:
        pair = [at(observations.sent, size, mode, 0.0) for mode in (CON, "mqtt qos0")]
        con, qos0 = (None if cell is None else cell.overhead().estimate for cell in pair)
        if con is not None and qos0 is not None:
            order = "less than" if con < qos0 else "more than"
            found.append(f"A *{size}* CON exchange costs {con:.0f} B, {order} MQTT 0's {qos0:.0f} B.")
    lean = (
        "Our CoAP's requests have a token of two bytes and no options but the path; every message of MQTT 0 brings a TCP"
        " header with time stamps and a segment that only acknowledges."
    )
    return [lean, *found, *(_blocks(observations)[:1])]


def above_auto(observations: AllObservations, _decided: Decided) -> list[str]:
    parts = []
    for mode in ("mqtt qos2", "amqp manual"):
        above = []
        for size in SIZES:
            pair = [at(observations.bare, size, m, 0.0) for m in ("amqp auto", mode)]
            low, high = (None if cell is None else cell.overhead().estimate for cell in pair)
            if low is not None and high is not None:
                above.append(f"{high - low:+.0f} B ({size})")
        if above:
            parts.append(f"{mode} {' and '.join(above)}")
    if not parts:
        return []
    return [
        "We count TCP segments that only acknowledge. Without them (control below), against AMQP auto: "
        f"{'; '.join(parts)}."
    ]


def _bare_verdict(observations: AllObservations, decided: Decided) -> list[str]:
    found = [
        one
        for one in judged_together(some(observations.bare, BYTES), observations.claims)
        if one.number == decided.number
    ]
    return [
        f"Without TCP's segments that only acknowledge (control below) the verdict is *{one.verdict}*."
        for one in found
    ]


def steady_overhead(observations: AllObservations, _decided: Decided) -> list[str]:
    cell = at(observations.sent, "large", NON, 0.25)
    if cell is None or not cell.due or cell.missing / cell.due < MANY:
        return []
    return [
        f"Of *large* CoAP NON {_share(cell)} of the exchanges fail at 25 % loss, and what the failed ones have sent is"
        " spread over those that did not."
    ]


def overhead_by_size(observations: AllObservations, decided: Decided) -> list[str]:
    differences = []
    for mode in TCP:
        pair = [at(observations.bare, size, mode, 0.0) for size in ("small", "large")]
        small, large = (None if cell is None else cell.overhead().estimate for cell in pair)
        if small is not None and large is not None:
            differences.append(large - small)
    found = _blocks(observations)
    if differences:
        found.append(
            f"Without TCP's segments that only acknowledge (control below) *large* minus *small* is {min(differences):+.0f} to"
            f" {max(differences):+.0f} B for the TCP protocols, whose headers are the same for both sizes."
        )
    return found + _bare_verdict(observations, decided)


def _order(cells: Mapping[str, EchoObservations | None]) -> list[str]:
    """Return the modes from the fastest to the slowest."""
    known = {mode: mean for mode, cell in cells.items() if (mean := _mean_ms(cell)) is not None}
    return sorted(known, key=lambda mode: known[mode])


def order_over_sizes(observations: AllObservations, _decided: Decided) -> list[str]:
    found = _blocks(observations)
    orders = {
        size: _order({m: observations.sent.get("sizes", m, message_bytes=size) for m in MODES})
        for size in MESSAGE_BYTES
    }
    places = [f"{order.index(NON) + 1} at {size:,} B" for size, order in orders.items() if NON in order]
    if places:
        found.append(f"CoAP NON's place from the fastest of {len(MODES)}: {', '.join(places)}.")
    slowest = [size for size, order in orders.items() if order and order[-1] == "mqtt qos2"]
    if slowest:
        found.append(
            f"MQTT 2 is the slowest at {len(slowest)} of {len(orders)} sizes: mosquitto passes a message on when PUBREL"
            " has come, a round trip later."
        )
    return found


def order_over_rates(observations: AllObservations, _decided: Decided) -> list[str]:
    found = []
    for factor in (FACTORS[0], FACTORS[-1]):
        cells = {m: observations.sent.get("rates", m, rate_factor=factor) for m in MODES}
        if order := _order(cells):
            found.append(f"From the fastest at x{factor:g}: {', '.join(order)}.")
    return found


def best_case(observations: AllObservations, _decided: Decided) -> list[str]:
    ping = observations.sent.paper_pings.mean().estimate
    cells = [observations.sent.get("paper_ping", mode, rtt=PAPER_RTT) for mode in MODES]
    means = [mean for c in cells if c is not None and (mean := c.delays.mean().estimate)]
    if ping is None or not means:
        return []
    return [
        f"Where a ping takes {ping:.2f} ms, broker and clients add {min(means) - ping:.2f} to {max(means) - ping:.2f} ms in"
        " the mean, on one machine."
    ]


def formats(observations: AllObservations, _decided: Decided) -> list[str]:
    """Say what C++'s libraries were measured to need, and Python's beside them."""
    found = []
    for name, cells in (
        ("C++", observations.formats.cpp),
        ("Python", partial(observations.formats.get, CURRENT_STATUS)),
    ):
        each = []
        for kind in (PROTO, FLAT):
            cell = cells(kind)
            figures = (
                {}
                if cell is None
                else {m: cell.interval(m).estimate for m in ("payload_bytes_mean", "build_encode_us")}
            )
            if None not in figures.values() and figures:
                each.append(
                    f"{kind} {short(figures['payload_bytes_mean'] or 0.0)} B and"
                    f" {short(figures['build_encode_us'] or 0.0)} us to build and encode"
                )
        if each:
            found.append(f"{name}: {', '.join(each)}.")
    return found


def best_choice(observations: AllObservations, _decided: Decided) -> list[str]:
    found = []
    sent = observations.sent
    both = {
        "one way shaped": [at(sent, "small", mode, 0.0) for mode in ("mqtt qos0", "mqtt qos1")],
        "both ways shaped": [sent.get("both_ways", mode, loss=0.0) for mode in ("mqtt qos0", "mqtt qos1")],
    }
    earlier = {}
    for name, (qos0, qos1) in both.items():
        compared = None if qos0 is None or qos1 is None else compare_latency(qos0, qos1)
        if compared is not None:
            noise = "more than noise" if compared.more_than_noise else "no more than noise"
            found.append(
                f"*Small*, 0 % loss, {name}: MQTT 1 - MQTT 0 {compared.difference:+.1f} ms, {noise}."
            )
            earlier[name] = compared.more_than_noise and compared.difference < 0
    if earlier == {"one way shaped": True, "both ways shaped": False}:
        found.append(
            "With QoS 0 the broker has nothing to say to the publisher, so its TCP acknowledges at once, and that segment"
            " stands before the message in the slow queue to the vehicle; with QoS 1 the acknowledgement rides on PUBACK."
            " That this is the cause is likely, not proven."
        )
    least = measured = 0
    for size in SIZES:
        for loss in LOSSES:
            cells = {mode: at(observations.sent, size, mode, loss) for mode in TCP}
            overheads = {
                mode: mean
                for mode, cell in cells.items()
                if cell is not None and (mean := cell.overhead().estimate)
            }
            if "mqtt qos0" in overheads and len(overheads) > 1:
                measured += 1
                least += min(overheads, key=lambda mode: overheads[mode]) == "mqtt qos0"
    if measured:
        found.append(
            f"In bytes MQTT 0 is the best of the TCP protocols in {least} of {measured} cells of size and loss rate."
        )
    return found


REASONS: Final[dict[int, Reason]] = {
    1: lowest_non,
    2: flat_non,
    3: small_below_large,
    4: growth_con,
    5: near_con,
    6: tcp_delivers,
    7: non_loses,
    8: con_loses,
    9: overhead_order,
    10: above_auto,
    11: _bare_verdict,
    12: steady_overhead,
    13: overhead_by_size,
    14: order_over_sizes,
    15: order_over_rates,
    16: best_case,
    17: formats,
    18: formats,
    19: formats,
    20: best_choice,
}
