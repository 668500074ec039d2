"""Why claims of the paper are contradicted, in a few words for the table of claims: each borne out by a sentence of `reasons`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ivsim.study.claims_report import Cause

_BLOCKS: Final = Cause(
    "a large CoAP message takes two blocks, the second by a further request", "CoAP carries"
)

CAUSES: Final[Mapping[int, Sequence[Cause]]] = {
    1: [_BLOCKS],
    2: [_BLOCKS],
    3: [Cause("under loss a mean hangs on few messages that were sent again", "What contradicts it")],
    4: [Cause("CON waits seconds before it sends again: few messages make the mean", "CON waits")],
    5: [_BLOCKS],
    6: [Cause("messages were overtaken by later ones of their vehicle")],
    7: [Cause("three datagrams have to come through for one large message", "With loss only")],
    8: [Cause("a newer notification takes the place of one that is sent again", "A notification")],
    9: [Cause("CoAP's token has two bytes; TCP brings time stamps and acknowledgements", "Our CoAP")],
    10: [Cause("TCP segments that only acknowledge are counted here", "We count")],
    12: [Cause("what failed exchanges sent is spread over those that succeed", "Of *large*")],
    13: [
        Cause("CoAP has a second block for large messages", "CoAP carries"),
        Cause("TCP's headers are the same for both sizes", "Without TCP's segments"),
    ],
    14: [_BLOCKS, Cause("MQTT 2 passes a message on a round trip later", "MQTT 2 is the slowest")],
    16: [Cause("broker and clients add it on one machine, too", "Where a ping takes")],
    20: [Cause("with QoS 0 TCP's acknowledgement stands before the message in the queue", "With QoS 0")],
}
