"""The one Spark session of a twin process, with the fold compiled into it; it knows no topic and no query."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from twin.config import TwinConfig

_SOURCE = Path(__file__).with_name("TwinFold.java")
_SCRATCH = ".spark"
_CLASS = "ivsim.twin.TwinFold"
FOLD_INPUT = (
    "epoch bigint, sequence bigint, received_at_ns bigint, sampled_at_ns bigint, offset bigint,"
    " head string, payload binary"
)
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# The first tier alone halves what compiling costs a short run, and costs a long one some throughput.
_JIT = {"quick": "-XX:TieredStopAtLevel=1", "full": "-XX:+TieredCompilation"}

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
logger.admin.name = org.apache.kafka.clients.admin
logger.admin.level = ERROR
"""


def settings(config: TwinConfig) -> dict[str, str]:
    """Return Spark's settings: small and quick to start; the reasons are in docs/twin.md."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(config.jars()),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
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
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def open_session(config: TwinConfig) -> SparkSession:
    """Start Spark and give it the aggregate `twin_fold`; the caller stops it."""
    scratch = Path(config.run_dir).resolve() / _SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)  # a killed process leaves one
    scratch.mkdir()
    (scratch / "log4j2.properties").write_text(_LOG4J.format(level=config.log_level), encoding="utf-8")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(config.spark_master).appName("ivsim-twin")
    for key, value in settings(config).items():
        builder = builder.config(key, value)
    java = f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'} -XX:+UseParallelGC {_JIT[config.jit]}"
    builder = builder.config("spark.driver.extraJavaOptions", java)
    builder = builder.config("spark.local.dir", str(scratch)).config(
        "spark.sql.warehouse.dir", str(scratch / "warehouse")
    )
    session: SparkSession = builder.getOrCreate()
    register_fold(session, scratch)
    return session


def close_session(session: SparkSession) -> None:
    """Stop Spark and its JVM and remove what it kept beside the run."""
    scratch = Path(session.conf.get("spark.local.dir"))
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    session.stop()
    gateway.shutdown()
    # The JVM ends at the end of its standard input; PySpark itself would not wait for it.
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = None  # noqa: SLF001 - the next session of this process starts a JVM of its own
    SparkContext._jvm = None  # noqa: SLF001
    shutil.rmtree(scratch, ignore_errors=True)


def register_fold(session: SparkSession, scratch: Path) -> None:
    """Compile the fold with the Janino compiler inside Spark and register it as `twin_fold`."""
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public way to a user-defined JVM aggregate
    jar = scratch / "twin-fold.jar"
    _write_jar(jvm, jar)
    session.sql(f"ADD JAR '{jar}'").collect()
    inner: Any = session._jsparkSession  # noqa: SLF001
    fold_class = inner.artifactManager().classloader().loadClass(_CLASS)
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    make = fold_class.getDeclaredConstructor(gateway.new_array(jvm.Class, 0))
    fold = make.newInstance(gateway.new_array(jvm.Object, 0))
    row = jvm.org.apache.spark.sql.types.DataType.fromDDL(FOLD_INPUT)
    encoder = jvm.org.apache.spark.sql.Encoders.row(row)
    inner.udf().register("twin_fold", jvm.org.apache.spark.sql.functions.udaf(fold, encoder))


def _write_jar(jvm: Any, path: Path) -> None:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    classes = compiler.getBytecodes()
    with zipfile.ZipFile(path, "w") as jar:
        for name in classes:
            jar.writestr(name.replace(".", "/") + ".class", bytes(classes[name]))
