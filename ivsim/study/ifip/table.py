"""The published claims about latency, delivery and bytes, and how each is decided; 17 to 19 are of formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ivsim.study.evidence import Evidence
from ivsim.study.ifip import claims, claims_of_bytes
from ivsim.study.ifip.verdicts import Finding


class Claim(NamedTuple):
    """One published claim: its words, how it is decided, and the function that decides it."""

    number: int
    words: str
    test: str
    decide: Callable[[Evidence], list[Finding]]


CLAIMS: Final = (
    Claim(
        1,
        ("large: CoAP NON has the lowest mean latency at every loss rate"),
        ("paired t, all comparisons together at 5 % (Holm)"),
        claims.lowest_non,
    ),
    Claim(
        2,
        ("large: CoAP NON's latency is flat over loss"),
        ("95 % interval of mean(p) / mean(0) within 0.85 to 1.15 (bootstrap)"),
        claims.flat_non,
    ),
    Claim(
        3,
        ("small: latencies are lower than large for every configuration and loss rate"),
        ("paired t, all comparisons together at 5 % (Holm)"),
        claims.small_below_large,
    ),
    Claim(
        4,
        ("small: CoAP CON's mean latency grows about seven-fold from 0 to 25 % loss, the most of the seven"),
        ("95 % interval of the ratio within 5 to 9, and above every other's (bootstrap)"),
        claims.growth_con,
    ),
    Claim(
        5,
        ("below 10 % loss CoAP CON's latency is near that of the TCP protocols"),
        ("95 % interval (t) of its mean within the TCP protocols' range of means, widened by a quarter"),
        claims.near_con,
    ),
    Claim(
        6,
        ("every TCP protocol delivers every message at every loss rate"),
        ("no message missing that a later one of its vehicle has overtaken; upper exact limit given"),
        claims.tcp_delivers,
    ),
    Claim(
        7,
        ("CoAP NON loses about the link's loss rate"),
        ("95 % interval of lost / expected within 0.75 to 1.25 (exact Poisson)"),
        claims.non_loses,
    ),
    Claim(
        8,
        ("CoAP CON loses some: large at 10 % and 25 %, small only at 25 %"),
        (
            "some missing there, none elsewhere; none there is contrary only if the exact "
            "upper limit is below 0.5 %"
        ),
        claims.con_loses,
    ),
    Claim(
        9,
        (
            "overhead, lowest to highest: CoAP NON, MQTT 0, CoAP CON (about MQTT 1), AMQP "
            "auto, AMQP manual, MQTT 2"
        ),
        ("Welch at 0 % loss, both sizes, all comparisons together at 5 % (Holm); CON - MQTT 1 within 25 B"),
        claims_of_bytes.overhead_order,
    ),
    Claim(
        10,
        ("AMQP manual and MQTT 2 are 50 to 100 B above AMQP auto"),
        ("95 % interval of the difference (Welch) within 50 to 100 B, both sizes"),
        claims_of_bytes.above_auto,
    ),
    Claim(
        11,
        ("each AMQP configuration costs more than the MQTT one of like reliability"),
        ("Welch, all comparisons together at 5 % (Holm)"),
        claims_of_bytes.amqp_above_mqtt,
    ),
    Claim(
        12,
        ("overhead hardly depends on loss, but for CoAP CON at high loss"),
        ("95 % interval of the ratio 25 % / 0 % within 0.85 to 1.15 (bootstrap); for CON above 1.15"),
        claims_of_bytes.steady_overhead,
    ),
    Claim(
        13,
        (
            "AMQP's overhead is lower for small than large; MQTT 1 and 2's is higher for "
            "small; CoAP and MQTT 0 alike"
        ),
        ("Welch, all comparisons together at 5 % (Holm); alike: difference within 15 B"),
        claims_of_bytes.overhead_by_size,
    ),
    Claim(
        14,
        ("latency over message size: the order of the configurations stays the same"),
        (
            "no pair significantly turned round (paired t, all comparisons together at 5 % "
            "(Holm)) and rank correlation 0.7 or more"
        ),
        claims.order_over_sizes,
    ),
    Claim(
        15,
        ("latency over scaled rate: the order stays the same"),
        (
            "no pair significantly turned round (paired t, all comparisons together at 5 % "
            "(Holm)) and rank correlation 0.7 or more"
        ),
        claims.order_over_rates,
    ),
    Claim(
        16,
        ("best case: the protocols add 2 to 5 ms to a ping"),
        ("95 % interval of mean - mean(ping) (Welch) within 2 to 5 ms"),
        claims.best_case,
    ),
    Claim(
        20,
        (
            "MQTT QoS 0 is the best reliable choice in latency and bytes; CoAP NON the best "
            "where reliability is no concern"
        ),
        (
            "never significantly worse than another TCP protocol, nor NON than MQTT 0 (paired"
            " t, Welch, all comparisons together at 5 % (Holm))"
        ),
        claims.best_choice,
    ),
)
