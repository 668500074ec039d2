"""How coordinator and agent prove to each other that they know the token, which itself never goes over the wire.

Each signs both nonces and which of the two it is (HMAC-SHA-256, RFC 2104): what one of them has sent proves nothing a
second time, nor in the other direction. What follows is neither signed nor encrypted.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, Literal

from ivsim.agents.messages import NONCE_BYTES, PROTOCOL, Hello, Login

TOKEN_VARIABLE: Final = "IVSIM_AGENT_TOKEN"  # noqa: S105 - the name of a variable
Side = Literal["coordinator", "agent"]


def new_nonce() -> str:
    return secrets.token_hex(NONCE_BYTES)


def proof(token: str, side: Side, agent_nonce: str, coordinator_nonce: str) -> str:
    """Return what only one who knows the token can say, in hexadecimal."""
    said = f"ivsim {PROTOCOL} {side} {agent_nonce} {coordinator_nonce}"
    return hmac.new(token.encode(), said.encode(), "sha256").hexdigest()


def proves(shown: str, token: str, side: Side, agent_nonce: str, coordinator_nonce: str) -> bool:
    """Say whether a proof is right, in a time that tells nothing of where it is wrong."""
    return hmac.compare_digest(shown, proof(token, side, agent_nonce, coordinator_nonce))


def difference(theirs: Hello | Login, version: str) -> str | None:
    """Return in words how the other's code or protocol is another; None where both are the same."""
    if theirs.version != version:
        return f"it is {theirs.version}, and this is {version}: both must be the same"
    if theirs.protocol != PROTOCOL:
        return f"it speaks protocol {theirs.protocol}, and this {PROTOCOL}: both must be the same"
    return None
