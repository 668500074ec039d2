"""Says in the process's log why an intake's connection was lost, and why it does not come back."""

from __future__ import annotations

import logging
from typing import Final

_LOG: Final = logging.getLogger("gateways.connection")


class ConnectionLog:
    """One line for each lost connection; of attempts that fail one after the other each new reason once.

    Args:
        where: the peer, as people write it: "MQTT broker 10.0.0.1:1883".
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._said = ""

    def lost(self, reason: str) -> None:
        """A connection that was up is gone."""
        self._said = ""
        _LOG.warning("%s: connection lost: %s", self._where, reason)

    def failed(self, reason: str) -> None:
        """An attempt to have it again has failed, and others follow; `reason` names the peer."""
        if reason != self._said:
            self._said = reason
            _LOG.warning("%s; trying again", reason)

    def up(self) -> None:
        """It is there, for the first time or again."""
        self._said = ""
        _LOG.info("%s: connected", self._where)
