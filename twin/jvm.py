"""Starts and ends the JVM of PySpark: the one place of the twin that uses names which PySpark keeps to itself.

PySpark writes all settings of the session that starts its JVM on Java's command line, where every user of the machine reads
them: so it is started first, without secrets. It has no public way to end it: `SparkSession.stop` leaves it running until this
process ends, and then nobody waits for it. docs/decisions/twin-fold.md says why it has to end earlier; a test notices when a
name is no more.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

END_S = 30.0
# It closes its connections a moment before it has ended.
LAST_MOMENT_S = 1.0


def start(settings: Mapping[str, str]) -> None:
    """Start Java with these settings on its command line; those that a session has besides are on none."""
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001


def stop(session: SparkSession) -> None:
    """Stop Spark and return when its JVM has ended; the next session of this process starts one of its own."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    session.stop()
    if gateway.proc is None:  # spark-submit has started it, and it ends with this process
        return
    gateway.shutdown()
    # The JVM ends at the end of its standard input.
    gateway.proc.stdin.close()
    gateway.proc.wait(END_S)
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001


def hadoop(session: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a URI, with the session's settings, and the URI as its path."""
    java: Any = session.sparkContext._jvm  # noqa: SLF001
    settings: Any = java.org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()
    path = java.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(settings), path


def end(session: SparkSession) -> str | None:
    """Return how the session's JVM has ended by itself; None while it lives."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    if gateway.proc is None:
        return None
    try:
        code = gateway.proc.wait(LAST_MOMENT_S)
    except subprocess.TimeoutExpired:
        return None
    if code >= 0:
        return f"ended with exit code {code}"
    known = -code in {*signal.Signals}
    return f"was ended by {signal.Signals(-code).name if known else f'signal {-code}'}"
