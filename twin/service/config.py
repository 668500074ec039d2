"""What one twin service is told, and who may ask it; read once, never changed."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from schemas import tokens
from schemas.errors import Refusal
from schemas.topics import KafkaTopics

TOKEN_VARIABLE: Final = "IVSIM_TWIN_TOKEN"  # noqa: S105 - the name of a variable


class ServiceConfig(BaseModel):
    """Settings of the twin service; unknown keys and values out of range are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    bootstrap: str = Field(
        pattern=r"^[^\s:/,]+:[0-9]{1,5}(,[^\s:/,]+:[0-9]{1,5})*$",
        description="HOST:PORT of a Kafka broker, of several by commas",
    )
    kafka_login: str = Field(
        default="", description="file by which the service logs in at Kafka over TLS; empty: in the clear"
    )
    topics_prefix: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535, description="0: any free one")
    token_file: str = Field(default="", description="file with the token; needed unless host is loopback")
    wait_for_topics: bool = Field(default=False, description="start before the run's topics are there")
    roads_file: str = Field(default="", description="GeoJSON whose lines the page draws under the vehicles")
    title: str = Field(default="", max_length=120, description="what the page says it shows")
    stale_after_s: float = Field(default=10.0, gt=0, le=86_400)
    max_payload_bytes: int = Field(default=1_048_576, ge=1)
    max_vehicles: int = Field(default=100_000, ge=1)
    future_tolerance_s: float = Field(default=5.0, ge=0)
    history_bytes: int = Field(default=24_000_000, ge=0, description="bound of all vehicles' kept statuses")
    history_step_s: float = Field(default=0.5, ge=0, description="kept statuses are at least this far apart")
    stream_interval_s: float = Field(default=0.05, gt=0, le=10)
    max_streams: int = Field(default=64, ge=1, le=10_000)

    @property
    def topics(self) -> KafkaTopics:
        return KafkaTopics(self.topics_prefix)


def is_loopback(host: str) -> bool:
    """Return whether a server bound to `host` can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def token_for(config: ServiceConfig) -> str:
    """Return the token that requests must show, "" for none; Refusal when one is needed and missing."""
    token = read_token(config.token_file)
    if not token and not is_loopback(config.host):
        raise Refusal(
            f"host {config.host}: anyone could read the fleet; give a token"
            f" (--token-file FILE or {TOKEN_VARIABLE}), or bind to 127.0.0.1"
        )
    return token


def read_token(path: str) -> str:
    """Return the token in a file, or in the environment when `path` is empty; "" when there is none."""
    return tokens.read_token(path, TOKEN_VARIABLE)
