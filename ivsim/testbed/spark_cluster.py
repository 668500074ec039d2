"""A Spark cluster of the run's own: a standalone master and workers, each of which has nothing of ours on its disks.

A worker sees a root of its own: this host's programs and libraries, Spark's jars in /opt/spark, its working directory, and one
directory that all workers and the driver have at the same path, as over NFS. The project, its virtual environment and the other
workers' files are not there, as on a node of a cluster; network and processes are this host's.
"""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from ivsim.testbed.kafka import java_command
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.registry import RunRecord
from schemas import direct_http
from schemas.java import QUICK_JAVA

_HOST: Final = "127.0.0.1"
_JAVA: Final = ("-XX:+UseSerialGC", *QUICK_JAVA, "-Xmx256m")
_ANSWER_S: Final = 2.0
EXECUTOR_MB: Final = 1_024
HOME: Final = "/opt/spark"  # where a worker sees Spark
_WORK: Final = "/var/spark"
# `unshare` made a mount namespace, which ends with the worker: what is mounted here needs no one to take it away.
_ROOT: Final = """
set -eu
own=$1 spark=$2 shared=$3 java=$4; shift 4
root=$own/root
mkdir -p "$root" "$own/work"
mount -t tmpfs none "$root"
for name in usr bin sbin lib lib64 etc dev proc sys; do
    if [ -L "/$name" ]; then ln -s "$(readlink "/$name")" "$root/$name"
    elif [ -d "/$name" ]; then mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"
    fi
done
mkdir -p "$root/tmp" "$root/opt/spark/jars" "$root/opt/spark/python/lib" "$root/var/spark" "$root/$shared"
chmod 1777 "$root/tmp"
mount --bind "$spark/jars" "$root/opt/spark/jars"
mount --bind "$spark/python/lib" "$root/opt/spark/python/lib"
mount --bind "$own/work" "$root/var/spark"
mount --bind "$shared" "$root/$shared"
[ -e "$root/$java/bin/java" ] || { mkdir -p "$root/$java"; mount --bind "$java" "$root/$java"; }
exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 SPARK_HOME=/opt/spark SPARK_SCALA_VERSION=2.13 \\
    SPARK_LOCAL_IP=127.0.0.1 IVSIM_RUN="$IVSIM_RUN" IVSIM_OWNER="$IVSIM_OWNER" "$@"
"""


class SparkMaster(OwnedServer):
    """The master; `url` is what `--spark-master` takes."""

    START_TIMEOUT_S = 60.0

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record, "spark-master")
        self.port, self._page_port = self._held_port(), self._held_port()

    @property
    def url(self) -> str:
        return f"spark://{_HOST}:{self.port}"

    def relaunch(self) -> None:
        words = ("--host", _HOST, "--port", str(self.port), "--webui-port", str(self._page_port))
        home = _pyspark()
        self._launch(
            [
                java_command(),
                *_JAVA,
                "-Dspark.master.rest.enabled=false",
                "-cp",
                f"{home}/jars/*",
                "org.apache.spark.deploy.master.Master",
                *words,
            ],
            environment={"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": _HOST},
        )

    def ready(self) -> bool:
        return self.workers() is not None

    def workers(self) -> dict[str, Any] | None:
        """Return what the master says of each worker that is alive, by its identity; None where it does not answer."""
        try:
            page = direct_http.answer(f"http://{_HOST}:{self._page_port}/json/", _ANSWER_S)
            found = json.loads(page)["workers"]
        except (OSError, ValueError):  # its page is there a moment before it has anything to say
            return None
        return {worker["id"]: worker for worker in found if worker["state"] == "ALIVE"}

    def _prepare(self) -> None:
        self._make_directory()


class SparkWorker(OwnedServer):
    """One worker; it is ready when the master knows it.

    Args:
        cores: slots that it offers, however many this host has.
        memory_mb: of all its executors.
        shared: directory that it has at the same path as everyone.
    """

    START_TIMEOUT_S = 60.0

    def __init__(
        self, record: RunRecord, master: SparkMaster, number: int, *, cores: int, memory_mb: int, shared: Path
    ) -> None:
        super().__init__(record, f"spark-worker-{number}")
        self._master, self._cores, self._memory_mb, self._shared = master, cores, memory_mb, shared
        self._port, self._page_port = self._held_port(), self._held_port()

    def relaunch(self) -> None:
        words = [
            "--host", _HOST, "--port", str(self._port), "--webui-port", str(self._page_port),
            "--cores", str(self._cores), "--memory", f"{self._memory_mb}m", "--work-dir", f"{_WORK}/work", self._master.url,
        ]  # fmt: skip
        java = Path(java_command()).resolve()
        seen = [str(self._dir), str(_pyspark()), str(self._shared), str(java.parents[1])]
        command = [
            str(java),
            *_JAVA,
            "-cp",
            f"{HOME}/jars/*",
            "org.apache.spark.deploy.worker.Worker",
            *words,
        ]
        self._launch(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ROOT, "sh", *seen, *command]
        )

    def ready(self) -> bool:
        return any(worker["port"] == self._port for worker in (self._master.workers() or {}).values())

    def _prepare(self) -> None:
        self._make_directory()


class SparkCluster:
    """Master and workers; all answer when `__enter__` returns.

    Attributes:
        shared: a directory that driver and executors have at the same path.
    """

    def __init__(
        self, record: RunRecord, workers: int, *, cores: int = 8, memory_mb: int = EXECUTOR_MB + 512
    ) -> None:
        self._cores = cores
        self.shared = record.directory / "spark-shared"
        record.scratch(self.shared)
        self.master = SparkMaster(record)
        self.workers = [
            SparkWorker(
                record, self.master, number, cores=cores, memory_mb=memory_mb, shared=self.shared
            )
            for number in range(1, workers + 1)
        ]  # fmt: skip
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.shared, ignore_errors=True)
            servers = (self.master, *self.workers)
            for server in servers:
                stack.callback(server.close)  # its ports are held already
            self.shared.mkdir(parents=True)
            for server in servers:
                stack.enter_context(server)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self.master.url

    def running(self) -> bool:
        """Return whether all of it lives."""
        return all(server.process.running() for server in (self.master, *self.workers))

    @property
    def conf(self) -> dict[str, str]:
        """Return the settings of an application that has an executor on each worker, with all of its slots."""
        return {
            "spark.executor.cores": str(self._cores),
            "spark.executor.memory": f"{EXECUTOR_MB}m",
            # They have one address and do not see each other's disks.
            "spark.shuffle.readHostLocalDisk": "false",
        }


def _pyspark() -> Path:
    """Return where PySpark lies with its jars, without loading it."""
    found = find_spec("pyspark")
    assert found is not None, "checked by preflight"
    assert found.origin is not None
    return Path(found.origin).parent
