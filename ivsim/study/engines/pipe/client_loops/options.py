"""What one measurement of a client library is asked, and what the named settings are in the words of its row."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from ivsim.study.engines.pipe.platforms.base import TUNING, Platform
from schemas.errors import Refusal

STREAM, BURST, SINGLE = "stream", "burst", "single"
LOOPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        STREAM: "send all, then read all from the beginning",
        BURST: "send all at once while a second thread reads",
        SINGLE: "one record on its way at a time",
    }
)
DOCUMENT, CAPPED, DEFAULTS, NEUTRAL, WARM = "document", "document-capped", "defaults", "neutral", "warm"
# Largest request of CAPPED beyond the value.
_HEADROOM_BYTES: Final = 1_000
_DOCUMENT: Final = {
    "acks": "0",
    "idempotence": False,
    "linger_ms": 100.0,
    "batch_bytes": 1_000_000,
    "batch_messages": 1_000_000,
    "in_flight": 1_000_000,
    "socket_buffer_bytes": 32 << 20,
    "fetch_min_bytes": 100_000,
    "retries": 0,
}
_NEUTRAL: Final = {
    "acks": "1",
    "idempotence": False,
    "linger_ms": 5.0,
    "batch_bytes": 1_000_000,
    "batch_messages": 10_000,
    "in_flight": 5,
    "fetch_min_bytes": 1,
}
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        DOCUMENT: "acks 0, linger 100 ms, batches of 1 MB, a million requests in flight, fetches of 100 kB, buffers of 32 MiB",
        CAPPED: "as document, and no request larger than the value and 1,000 bytes",
        DEFAULTS: "what each library has where nothing is said",
        NEUTRAL: "acks 1, linger 5 ms, batches of 1 MB, 5 requests in flight, fetches of 1 byte",
        WARM: "as neutral, after a warm-up by the same producer and, in a burst or one by one, the same consumer",
    }
)
TAKE_RECORDS: Final = 500
TAKE_MS: Final = 500.0


class ClientOptions(BaseModel):
    """One cell: a client library, what it does, with which records and settings.

    Attributes:
        client: a platform's row, for its client library.
        loop: what is done; see LOOPS.
        path: through the interface that all clients share, or by the library's own calls alone.
        bytes: of a value; the key is 8 bytes.
        messages: of one measurement.
        settings: named; see SETTINGS.
        process: kept for all measurements of the client, or a new one for this one.
        warmup_messages: of WARM.
        linger_ms: instead of the settings' own; None: theirs.
        seed: of the values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    client: str
    loop: Literal["stream", "burst", "single"] = "stream"
    path: Literal["interface", "bare"] = "interface"
    bytes: int = Field(default=1_000, ge=1, le=900_000)
    messages: int = Field(default=1_000, ge=10, le=1_000_000)
    settings: Literal["document", "document-capped", "defaults", "neutral", "warm"] = "neutral"
    process: Literal["kept", "new"] = "kept"
    warmup_messages: int = Field(default=1_000, ge=1, le=100_000)
    linger_ms: float | None = Field(default=None, ge=0, le=60_000)
    seed: int = Field(default=1, ge=0)

    @property
    def warmup(self) -> int:
        """Return the records that go before the clock starts."""
        return self.warmup_messages if self.settings == WARM else 0


def client_options(given: Mapping[str, Any]) -> ClientOptions:
    """Return the checked options; Refusal names field, value and what is allowed."""
    try:
        options = ClientOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise Refusal(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if options.client not in PLATFORMS:
        raise Refusal(f"client {options.client!r}: allowed are {', '.join(PLATFORMS)}")
    row = platform_named(options.client)
    if options.settings == DEFAULTS and row.defaults is None:
        raise Refusal(f"settings {DEFAULTS}: client {row.name} does not say what its library's own are")
    if options.path == "bare" and options.loop != STREAM:
        raise Refusal(f"path bare: with loop {STREAM} alone, not {options.loop}")
    if options.bytes > row.record_bytes:
        raise Refusal(f"bytes {options.bytes}: client {row.name} takes at most {row.record_bytes}")
    sender_settings(options)
    return options


def asked(options: ClientOptions) -> dict[str, Any]:
    """Return what the named settings ask of every client, options of the pipe and TUNING alike."""
    row = platform_named(options.client)
    named: dict[str, Mapping[str, Any]] = {
        DOCUMENT: _DOCUMENT,
        CAPPED: {**_DOCUMENT, "message_max_bytes": options.bytes + _HEADROOM_BYTES},
        DEFAULTS: row.defaults or {},
        NEUTRAL: _NEUTRAL,
        WARM: _NEUTRAL,
    }
    linger = {} if options.linger_ms is None else {"linger_ms": options.linger_ms}
    return {**named[options.settings], **linger}


def unobeyed(options: ClientOptions) -> list[str]:
    """Return which of the named settings the client has no setting for."""
    row = platform_named(options.client)
    return [name for name in asked(options) if not _has(row, name)]


def _has(row: Platform, name: str) -> bool:
    return name in (row.tuning if name in TUNING else row.settings)


def sender_settings(options: ClientOptions) -> dict[str, Any]:
    """Return the settings of a client's sender and receiver, as far as the client has them."""
    row = platform_named(options.client)
    wanted = {name: value for name, value in asked(options).items() if _has(row, name)}
    given = {name: value for name, value in wanted.items() if name not in TUNING}
    if given.get("linger_ms") == 0:  # no batch waits to be filled: their sizes have no effect
        given = {name: value for name, value in given.items() if not name.startswith("batch_")}
    fixed = {
        "platform": options.client,
        "partitions": 1,
        "take": "first",
        "take_records": TAKE_RECORDS,
        "take_ms": TAKE_MS,
    }
    checked = pipe_options({**fixed, **given}, lambda field: field)
    tuning = {name: value for name, value in wanted.items() if name in TUNING}
    # Without a linger too, a library's batch is bounded while a request is under way.
    batch = {name: value for name, value in wanted.items() if name.startswith("batch_")}
    return {**checked.model_dump(mode="json"), **batch, "tuning": tuning}
