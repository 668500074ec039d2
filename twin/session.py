"""The one Spark session of a twin process, with the fold in it; it knows no topic and no query."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from schemas.java import JIT
from schemas.settings import BY_KUBERNETES
from twin import jvm, object_store
from twin.class_archive import java_options
from twin.config import TwinConfig
from twin.fold_jar import fold_jar

_SCRATCH = ".spark"
# What a record leaves behind dies young. Java's own choice, a third of the heap, takes half a GB more under load. In a flood
# the longest time between two updates was 0.5 to 0.9 s by it, and 0.2 to 0.4 s so; rate and processor time were the same.
_YOUNG_MB: Final = 128
# Spark makes one method of a stage. That of the twin's first has more than 8,000 bytes of code, beyond which Java compiles
# none of its own accord: it was interpreted for each message. Spark took 608 us of processor time a message, and takes 499 (perf,
# 15 s each of 1,000 messages/s).
_ANY_METHOD: Final = "-XX:-DontCompileHugeMethods"
# A catalog of functions is Spark's public way to an aggregate from a jar that needs no code in the JVM to be registered.
FOLD: Final = "ivsim.twin_fold"
_CATALOG = "ivsim.twin.FoldCatalog"
REGISTERED_S: Final = 30
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_LOG4J = """rootLogger.level = {level}
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex{{12}}
# Stopping a real-time query cancels tasks that never end by themselves, and Spark logs each as a failure. A real
# failure is told by the query's exception.
logger.a.name = org.apache.spark.util.Utils
logger.a.level = OFF
logger.b.name = org.apache.spark.shuffle.streaming
logger.b.level = OFF
logger.c.name = org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask
logger.c.level = OFF
logger.d.name = org.apache.spark.util.ErrorNotifier
logger.d.level = OFF
logger.e.name = org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
logger.e.level = OFF
logger.admin.name = org.apache.kafka.clients.admin
logger.admin.level = ERROR
"""


def settings(config: TwinConfig) -> dict[str, str]:
    """Return Spark's settings: small and quick to start; the reasons are in docs/twin.md."""
    in_store = object_store.jars(config.s3_jars_dir) if config.s3_jars_dir or config.checkpoint.stored else []
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # PySpark tells Java which line of Python made a column, by several calls for each: half of what a plan costs.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.jars": ",".join([*config.jars(), *in_store, str(fold_jar())]),
        f"spark.sql.catalog.{FOLD.split('.')[0]}": _CATALOG,
        "spark.driver.host": config.driver_host,
        "spark.driver.bindAddress": config.driver_host,
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(config.shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.stateSchemaCheck": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # A row waits this long for its shuffle buffer to fill; Spark's own choice, 50 ms, was most of the delay.
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": str(config.shuffle_wait_ms),
        "spark.locality.wait": "0s",
        "spark.cleaner.referenceTracking.blocking": "false",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.python.worker.faulthandler.enabled": "true",
        **(_LOCAL if config.local else _cluster(config)),
        **(object_store.spark_settings(config.s3_endpoint) if in_store else {}),
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        **config.spark_conf,
    }


# Executors on other machines have none of our packages.
_LOCAL: Final = {"spark.python.daemon.module": "twin.python_daemon"}


def _cluster(config: TwinConfig) -> dict[str, str]:
    """Return what a cluster needs beside: real time refuses the first two, and tasks want all executors to be there."""
    return {
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{REGISTERED_S}s",
        # As the driver's own Java: `jit` is of the whole job.
        "spark.executor.extraJavaOptions": " ".join(["-XX:+UseParallelGC", _ANY_METHOD, *JIT[config.jit]]),
        "spark.pyspark.driver.python": sys.executable,
    }


def secret_settings(config: TwinConfig) -> dict[str, str]:
    """Return the settings that no command line may hold: the environment of a cluster's executors."""
    return {
        f"spark.executorEnv.{name}": value
        for name, value in config.shipped_secrets().items()
        if f"{BY_KUBERNETES}{name}" not in config.spark_conf
    }


def java_of(config: TwinConfig, scratch: Path) -> str:
    """Return the options of Spark's Java, whose own files lie in `scratch`."""
    own = [
        f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'}",
        "-XX:+UseParallelGC",
        f"-Xmn{_YOUNG_MB}m",
        _ANY_METHOD,
        *JIT[config.jit],
        # Killed, it would leave its native libraries and working directories in the machine's temporary directory.
        f"-Djava.io.tmpdir={scratch}",
    ]
    return " ".join([*own, *java_options("spark")])


def make_scratch(config: TwinConfig) -> Path:
    """Return the directory of Spark's own files beside the run, with its settings of logging; empty but for them."""
    scratch = Path(config.run_dir).resolve() / _SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)  # a killed process leaves one
    scratch.mkdir()
    (scratch / "log4j2.properties").write_text(_LOG4J.format(level=config.log_level), encoding="utf-8")
    return scratch


def launch_settings(config: TwinConfig, scratch: Path) -> dict[str, str]:
    """Return the settings with which Spark's Java is started, whose own files lie in `scratch`; none is a secret."""
    return {
        "spark.master": config.spark_master,
        "spark.app.name": "ivsim-twin",
        **settings(config),
        "spark.driver.extraJavaOptions": java_of(config, scratch),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def open_session(config: TwinConfig) -> SparkSession:
    """Start Spark, which finds the aggregate `FOLD` in its catalog; the caller stops it."""
    # Under spark-submit Java is there already, and has its files there.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    scratch = Path(config.run_dir).resolve() / _SCRATCH if submitted else make_scratch(config)
    os.environ.setdefault("SPARK_LOCAL_IP", config.driver_host)
    os.environ.update(config.shipped_secrets())
    if config.local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    launched = launch_settings(config, scratch)
    jvm.start(launched)
    builder = SparkSession.builder
    for key, value in {**launched, **secret_settings(config)}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


@contextmanager
def held(session: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Let the session have these settings within the block; behind it those of before hold, however it ends."""
    before = {name: session.conf.get(name, None) for name in conf}
    try:
        for name, value in conf.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)


def close_session(session: SparkSession) -> None:
    """Stop Spark and its JVM and remove what it kept beside the run."""
    scratch = Path(session.conf.get("spark.local.dir"))
    jvm.stop(session)
    shutil.rmtree(scratch, ignore_errors=True)
