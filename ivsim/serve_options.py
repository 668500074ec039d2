"""What `ivsim serve` is asked to do: the options of a gateway alone, and those of the twins behind it."""

from __future__ import annotations

from typing import Annotated, Final

from ivsim.gateway_options import ALONE, PANELS, GatewayOptions, Words
from ivsim.option import Option

TWINS: Final = "Twins"
SERVE_PANELS: Final = (*PANELS, TWINS)


class ServeOptions(GatewayOptions):
    """The words of `ivsim serve` beside those of a run."""

    state: Annotated[
        str | None,
        Option(
            "Directory where Spark keeps the twins' state and every process its log; who starts again with it goes on.",
            TWINS,
        ),
    ] = None
    roads: Annotated[str | None, Option("GeoJSON whose lines the page draws under the vehicles.", TWINS)] = (
        None
    )


SERVE: Final = Words(
    "ivsim serve",
    ServeOptions,
    {
        **ALONE.shared,
        "kafka_partitions": (
            TWINS, "Partitions of the topics, and of the twins' state in Spark: the same whenever it starts again.", "",
        ),
        "trigger": (TWINS, "Trigger of the Spark query.", ""),
        "spark_master": (TWINS, "Master of a Spark cluster, such as spark://HOST:7077.", "this machine"),
        "spark_checkpoint": (
            TWINS, "URI where Spark keeps the twins' state, such as s3a://BUCKET/PATH, which all executors reach.", "below --state",
        ),
        "history": (
            TWINS, "Directory, or s3a://BUCKET/PATH, in which each status is kept, decoded, as Parquet.", "none is kept",
        ),
        "s3_endpoint": (
            TWINS, "URL of the object store that has the s3a:// places, such as https://HOST:9000.", "Amazon's own",
        ),
        "spark_driver_host": (
            TWINS, "Name or address of this machine at which a cluster's executors reach Spark's driver.", "127.0.0.1",
        ),
        "spark_conf": (
            TWINS,
            "Setting KEY=VALUE of Spark, such as spark.driver.memory=4g; may be given more than once.",
            "the twin's own",
        ),
        "future_tolerance_s": (
            TWINS,
            (
                "How far a vehicle's clock may be ahead of Kafka's; a reading from further on is kept out of the twin."
            ),
            "",
        ),
        "page_port": (
            TWINS, "Port on 127.0.0.1 of the twins over HTTP, with a page at /; 0 takes a free one.", "",
        ),
    },
    made_alone=("kafka_replication", "kafka_min_insync"),
)  # fmt: skip
