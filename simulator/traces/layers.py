"""What a trace's rates count, and what they are in Ethernet frames, which is what a link's rate counts.

A packet of 1,500 bytes of IP fills a frame of 1,514 (IEEE 802.3 without preamble and check sequence). It holds 1,472
bytes of UDP's payload (RFC 768; IPv4, RFC 791), or 1,448 of TCP's (RFC 9293, timestamps by RFC 7323, section 3). Those
who measured a rate kept the link full, so that their packets were full, too: a rate of payload means more on the link.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

FRAME_BYTES: Final = 1_514
# what a rate may count -> bytes of it in a full frame
RATE_LAYERS: Final = MappingProxyType(
    {"ethernet": FRAME_BYTES, "ip": 1_500, "udp_payload": 1_472, "tcp_payload": 1_448}
)


def frame_factor(layer: str | None) -> float:
    """Return what a rate of this layer is multiplied by to count frames; None, not stated, counts them already."""
    return 1.0 if layer is None else FRAME_BYTES / RATE_LAYERS[layer]
