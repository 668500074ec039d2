"""The published claims about latency, delivery and bytes, and how each is decided; 17 to 19 are of formats."""

from __future__ import annotations

from typing import Final

from ivsim.papers.ifip2020 import latency_claims, overhead_claims
from ivsim.papers.ifip2020.latency_claims import ENOUGH
from ivsim.papers.ifip2020.overhead_claims import ABOUT_BYTES
from ivsim.papers.ifip2020.paper import RTT_DEVIATION_MS, SAME_BYTES, SAME_SHARE
from ivsim.study.claims import Claim

MARGIN_MS: Final = (
    f"contrary by more than {RTT_DEVIATION_MS:g} ms (a standard deviation of the paper's RTT) and {SAME_SHARE:.0%} of the"
    " lower mean"
)
RARE: Final = (
    f"exact 95 % interval below {ENOUGH:.1%}; contrary above that, if the counts differ (Fisher; the paper states no"
    " number of messages: as many as here)"
)
STAYS: Final = (
    f"no pair of modes one way here and the other way there (paired by message), {MARGIN_MS.removeprefix('contrary ')};"
    " a pair stays when its intervals rule that out"
)


def _margin_bytes(margin: float) -> str:
    return f"contrary by more than {margin:g} B"


CLAIMS: Final = (
    Claim(
        1,
        ("large: CoAP NON has the lowest mean latency at every loss rate"),
        f"paired by message; none lower by more than the margin; {MARGIN_MS}",
        latency_claims.lowest_non,
        "latency-over-loss.svg",
    ),
    Claim(
        2,
        ("large: CoAP NON's latency is flat over loss"),
        ("90 % interval of mean(p) / mean(0) within 0.85 to 1.15 (of messages that both received)"),
        latency_claims.flat_non,
        "latency-over-loss.svg",
    ),
    Claim(
        3,
        ("small: latencies are lower than large for every configuration and loss rate"),
        f"paired by message; {MARGIN_MS}",
        latency_claims.small_below_large,
        "latency-over-loss.svg",
    ),
    Claim(
        4,
        ("small: CoAP CON's mean latency grows about seven-fold from 0 to 25 % loss, the most of the seven"),
        (
            "90 % interval of the ratio within 5 to 9, and above every other's (of messages that both received)"
        ),
        latency_claims.growth_con,
        "latency-over-loss.svg",
    ),
    Claim(
        5,
        ("below 10 % loss CoAP CON's latency is near that of the TCP protocols"),
        ("90 % interval of its mean within the TCP protocols' range of means, widened by a quarter"),
        latency_claims.near_con,
        "latency-over-loss.svg",
    ),
    Claim(
        6,
        ("every TCP protocol delivers every message at every loss rate"),
        f"share of messages overtaken by a later one of their vehicle: {RARE}",
        latency_claims.tcp_delivers,
        "unsuccessful-over-loss.svg",
    ),
    Claim(
        7,
        ("CoAP NON loses about the link's loss rate"),
        ("90 % interval of lost / expected within 0.75 to 1.25 (exact Poisson)"),
        latency_claims.non_loses,
        "unsuccessful-over-loss.svg",
    ),
    Claim(
        8,
        ("CoAP CON loses some: large at 10 % and 25 %, small only at 25 %"),
        f"share missing: {RARE}; where some are lost, above it",
        latency_claims.con_loses,
        "unsuccessful-over-loss.svg",
    ),
    Claim(
        9,
        (
            "overhead, lowest to highest: CoAP NON, MQTT 0, CoAP CON (about MQTT 1), AMQP "
            "auto, AMQP manual, MQTT 2"
        ),
        f"by vehicle, at 0 % loss, both sizes; {_margin_bytes(ABOUT_BYTES)}; CON - MQTT 1 within that",
        overhead_claims.overhead_order,
        "overhead.svg",
    ),
    Claim(
        10,
        ("AMQP manual and MQTT 2 are 50 to 100 B above AMQP auto"),
        ("90 % interval of the difference (by vehicle) within 50 to 100 B, both sizes"),
        overhead_claims.above_auto,
        "overhead.svg",
    ),
    Claim(
        11,
        ("each AMQP configuration costs more than the MQTT one of like reliability"),
        f"by vehicle; {_margin_bytes(SAME_BYTES)}",
        overhead_claims.amqp_above_mqtt,
        "overhead.svg",
    ),
    Claim(
        12,
        ("overhead hardly depends on loss, but for CoAP CON at high loss"),
        ("90 % interval of the ratio 25 % / 0 % within 0.85 to 1.15 (by vehicle); for CON above 1.15"),
        overhead_claims.steady_overhead,
        "overhead.svg",
    ),
    Claim(
        13,
        (
            "AMQP's overhead is lower for small than large; MQTT 1 and 2's is higher for "
            "small; CoAP and MQTT 0 alike"
        ),
        f"by vehicle; {_margin_bytes(SAME_BYTES)}; alike: difference within that",
        overhead_claims.overhead_by_size,
        "overhead.svg",
    ),
    Claim(
        14,
        ("latency over message size: the order of the configurations stays the same"),
        STAYS,
        latency_claims.order_over_sizes,
        "latency-over-size.svg",
    ),
    Claim(
        15,
        ("latency over scaled rate: the order stays the same"),
        STAYS,
        latency_claims.order_over_rates,
        "latency-over-rate.svg",
    ),
    Claim(
        16,
        ("best case: the protocols add 2 to 5 ms to a ping"),
        (
            "90 % interval of mean - mean(ping) within 2 to 5 ms, widened by the interval of the paper's ping, on a wire with"
            " that ping; below it not comparable, as a second machine can only add"
        ),
        latency_claims.best_case,
        "best-case.svg",
    ),
    Claim(
        20,
        (
            "MQTT QoS 0 is the best reliable choice in latency and bytes; CoAP NON the best "
            "where reliability is no concern"
        ),
        (
            "never worse by more than the margin than another TCP protocol, nor NON than MQTT 0 (paired by message;"
            f" {MARGIN_MS}, {_margin_bytes(SAME_BYTES)})"
        ),
        latency_claims.best_choice,
        "latency-over-loss.svg",
    ),
)

# Claims in which CoAP's *large* messages have a part: decided for both ways of sending what is longer than a block.
OF_BLOCKS: Final = (1, 2, 3, 5, 7, 8, 9, 12, 13, 14, 15, 20)
