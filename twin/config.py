"""What one twin process is told: read once from a JSON file, never changed; it opens nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ledger.config import RunTerms
from schemas.config import read_config
from schemas.errors import Refusal
from schemas.java import Jit
from schemas.kafka_login import check_files, client_settings, java_settings, shipped_secrets
from schemas.topics import KafkaTopics
from twin.place import Place
from twin.queries import QUERIES
from twin.queries.stations import Station

LiveChoice = Literal["consumer", "spark", "none"]
Trigger = Literal["realtime", "microbatch"]


def _known_query(name: str) -> str:
    if name not in QUERIES:
        raise ValueError(f"allowed are {', '.join(QUERIES)}")
    return name


class TwinConfig(RunTerms):
    """Settings of the twin process; unknown keys and values out of range are refused."""

    bootstrap: str = Field(
        default="", description="HOST:PORT of Kafka; empty only where nothing gets there (`echo`, `peer`)"
    )
    kafka_login: str = Field(
        default="", description="file by which clients log in at Kafka over TLS; empty: in the clear"
    )
    topics_prefix: str = ""
    trigger: Trigger = "realtime"
    checkpoint_dir: str = Field(
        default="",
        description="a directory, or a URI that Spark's executors reach (s3a://BUCKET/PATH); empty: RUN_DIR/checkpoint",
    )
    driver_host: str = Field(
        default="127.0.0.1",
        pattern=r"^[^\s/]+$",
        description="name or address of this machine at which Spark's executors reach it",
    )
    checkpoint_kept: bool = Field(default=True, description="false: it goes when the run is left")
    reopenings: int = Field(
        default=0,
        ge=0,
        le=1_000,
        description="how often in an hour a query that has died is opened again in the same session",
    )
    jars_dir: str = Field(default="", description="Spark's jars; empty: none are added")
    s3_jars_dir: str = Field(default="", description="S3A's jars, which places with s3a:// need")
    s3_endpoint: str = Field(
        default="", description="URL of the object store of s3a:// places; empty: Amazon's own"
    )
    spark_master: str = Field(
        default="local[16]",
        pattern=r"^(local(\[[^\]]+\])?|spark://\S+|yarn|k8s://\S+)$",
        description="local[N], spark://HOST:PORT, yarn or k8s://ADDRESS",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict, description="settings of Spark beside the twin's own"
    )
    realtime_duration_s: float = Field(default=300.0, ge=5, le=86_400)
    rehearse: bool = Field(
        default=True, description="cross batch boundaries before `ready` (real time, on this machine)"
    )
    microbatch_interval_s: float = Field(default=0.0, ge=0, le=3_600)
    live: LiveChoice = Field(
        default="consumer",
        description="who writes live figures to run.metrics: a thread of this process, a query of Spark's, or nobody",
    )
    live_interval_s: float = Field(
        default=2.0, gt=0, le=60, description="between two rows of a vehicle; of a query, between two batches"
    )
    live_window_s: int = Field(default=10, ge=1, le=3_600)
    history: str = Field(
        default="",
        description="directory or s3a:// URI below which every status is written, decoded, to Parquet; empty: nowhere",
    )
    history_source: str = Field(
        default="",
        pattern=r"^[\w.-]*$",
        description="name under which it is written there; empty: the checkpoint's",
    )
    query: Annotated[str, AfterValidator(_known_query)] | None = Field(
        default=None,
        description="a query beside the twin's own (twin.queries); its answers are files of the run",
    )
    stations: tuple[Station, ...] = Field(
        default=(), strict=False, description="of the query: name, latitude and longitude in degrees, each"
    )
    history_interval_s: float = Field(default=10.0, gt=0, le=3_600)
    shuffle_partitions: int = Field(default=2, ge=1, le=1_024)
    topic_partitions: int = Field(default=2, ge=1, le=1_024)
    topic_replication: int = Field(default=1, ge=1, le=100, description="brokers that have each partition")
    topic_min_insync: int = Field(
        default=1, ge=1, le=100, description="of those, how many must have a record before it is acknowledged"
    )
    shuffle_wait_ms: int = Field(default=2, ge=1, le=1_000)
    twin_ttl_s: float | None = Field(
        default=86_400.0,
        ge=1,
        le=31_536_000,
        description="after so long without an update a twin ends; null: never",
    )
    drain_timeout_s: float = Field(default=20.0, gt=0)
    warm_records: int = Field(default=2_000, ge=1)
    jit: Jit = "quick"
    log_level: Literal["ERROR", "WARN", "INFO"] = "ERROR"

    @property
    def topics(self) -> KafkaTopics:
        return KafkaTopics(self.topics_prefix)

    def kafka_client(self) -> dict[str, Any]:
        """Return librdkafka's properties that lead a client to Kafka."""
        return client_settings(self.bootstrap, self.kafka_login)

    def spark_kafka(self) -> dict[str, str]:
        """Return the options that lead Spark's sources and sinks to Kafka."""
        found = java_settings(self.bootstrap, self.kafka_login, shipped=not self.local)
        return {f"kafka.{name}": value for name, value in found.items()}

    def shipped_secrets(self) -> dict[str, str]:
        """Return what driver and executors of a cluster have in their environments to log in at Kafka."""
        return {} if self.local else shipped_secrets(self.kafka_login)

    @property
    def checkpoint(self) -> Place:
        return Place(self.checkpoint_dir or Path(self.run_dir) / "checkpoint")

    @property
    def local(self) -> bool:
        """Whether all of Spark is in this process's own JVM."""
        return self.spark_master.startswith("local")

    def jars(self) -> list[str]:
        """Return the paths of Spark's extra jars; Refusal when the directory has none."""
        if not self.jars_dir:
            return []
        found = sorted(str(p) for p in Path(self.jars_dir).glob("*.jar"))
        if not found:
            raise Refusal(f"jars_dir {self.jars_dir}: holds no jar of Spark's connector")
        return found


def read_twin_config(path: str | os.PathLike[str]) -> TwinConfig:
    """Return the configuration in a JSON file; Refusal names the file and the key."""
    return _checked(read_config(path, TwinConfig), path)


def _checked(config: TwinConfig, path: str | os.PathLike[str]) -> TwinConfig:
    if config.bridged and not config.bootstrap:
        raise Refusal(
            f"{path}: bootstrap: HOST:PORT of Kafka is needed (only topologies echo and peer have none)"
        )
    if not config.local and config.bridged and not config.checkpoint.remote:
        raise Refusal(
            f"{path}: checkpoint_dir {config.checkpoint}: executors of {config.spark_master} would keep the state on disks of"
            " their own; a URI that all of them reach is needed, such as s3a://BUCKET/PATH"
        )
    if config.kafka_login:
        try:
            check_files(config.kafka_login)
        except Refusal as refusal:
            raise Refusal(f"{path}: {refusal}") from None
    if not Path(config.run_dir).is_dir():
        raise Refusal(f"{path}: run_dir: no directory {config.run_dir}")
    return config
