"""Where the terminal's commands get twins from: a service over HTTP, or Kafka itself; both answer alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

import httpx

from schemas.errors import Refusal
from twin.service.config import ServiceConfig
from twin.service.errors import ApiError
from twin.service.fleet import Fleet
from twin.service.live_metrics import Figures
from twin.service.queries import Ask
from twin.service.reader import Reader
from twin.service.selection import fields_of, select
from twin.service.things import thing_id

TIMEOUT_S: Final = 10.0
READ_S: Final = 60.0


class Source(Protocol):
    """What can be asked."""

    def thing(self, vehicle_id: str, fields: str | None) -> dict[str, Any] | None:
        """Return one twin as a thing, None when there is none."""
        ...

    def rows(self, sort: str, limit: int) -> dict[str, Any]:
        """Return a page of rows: total and items."""
        ...

    def summary(self) -> dict[str, Any]:
        """Return the fleet in figures."""
        ...


@contextlib.contextmanager
def open_source(config: ServiceConfig | None, url: str, token: str) -> Iterator[Source]:
    """Yield Kafka itself when `config` is given, else the service at `url`; Refusal when it does not answer."""
    if config is None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # No proxy of the environment may see the token.
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as client:
            yield _Service(client, url)
        return
    fleet, figures = Fleet(config), Figures(config.max_vehicles)
    with Reader(config, fleet, figures, lambda: None) as reader:
        reader.looked.wait()
        if reader.refusal is not None:
            raise Refusal(reader.refusal)
        if not reader.caught_up.wait(READ_S):
            raise Refusal(f"{config.bootstrap}: topic {config.topics.state} was not read within {READ_S:g} s")
        yield _Kafka(Ask(config, fleet, figures))


class _Service:
    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url = client, url

    def thing(self, vehicle_id: str, fields: str | None) -> dict[str, Any] | None:
        parameters = {} if fields is None else {"fields": fields}
        return self._ask(f"/api/2/things/{thing_id(vehicle_id)}", parameters, missing=True)

    def rows(self, sort: str, limit: int) -> dict[str, Any]:
        return self._ask("/api/vehicles", {"sort": sort, "limit": limit}) or {}

    def summary(self) -> dict[str, Any]:
        return self._ask("/api/fleet", {}) or {}

    def _ask(self, path: str, parameters: dict[str, Any], *, missing: bool = False) -> dict[str, Any] | None:
        try:
            answer = self._client.get(path, params=parameters)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Refusal(f"--url {self._url}: no twin service answers ({error})") from error
        if missing and answer.status_code == httpx.codes.NOT_FOUND:
            return None
        try:
            body = answer.json()
        except ValueError as error:
            raise Refusal(f"--url {self._url}: not a twin service") from error
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise Refusal(f"--url {self._url}: it needs its token (--token-file FILE or IVSIM_TWIN_TOKEN)")
        if answer.is_error or not isinstance(body, dict):
            raise Refusal(
                f"--url {self._url}: {body.get('message', body) if isinstance(body, dict) else body}"
            )
        return body


class _Kafka:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def thing(self, vehicle_id: str, fields: str | None) -> dict[str, Any] | None:
        twin = self._ask.fleet.get(vehicle_id)
        try:
            return None if twin is None else select(self._ask.thing(twin), fields_of(fields))
        except ApiError as error:
            raise Refusal(f"--fields: {error}") from error

    def rows(self, sort: str, limit: int) -> dict[str, Any]:
        return self._ask.rows(None, sort, limit, 0, stale=None)

    def summary(self) -> dict[str, Any]:
        return self._ask.summary()
