"""`python -m twin.spark_submit CONFIG.json [OPTION...]`: the twin under spark-submit, in client mode.

spark-submit starts Java before our Python, so all settings but secrets are on its command line; it hands standard output
and standard error on as one. The twin's owner is Java, which holds its standard input open. A signal to this process ends the
twin in order. Ended by itself, spark-submit leaves the twin without its Java, which is like a kill: nothing is lost, and the
next twin waits for the lease.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark

from schemas.control import heeded
from schemas.errors import Refusal
from twin.config import TwinConfig, read_twin_config
from twin.session import launch_settings, make_scratch

_DRIVER: Final = str(Path(__file__).resolve().with_name("driver.py"))
_HERE: Final = str(Path(__file__).resolve().parents[2])
# What the configuration says, or this module.
_OURS: Final = frozenset(
    {
        "-c", "--conf", "--master", "--deploy-mode", "--name", "--class", "--jars", "--packages", "--py-files",
        "--driver-java-options", "--driver-memory", "--driver-class-path", "--driver-library-path", "--properties-file",
    }
)  # fmt: skip
_SIGNALLED: Final = 128


def program() -> str:
    """Return the path of spark-submit, that of SPARK_HOME, else PySpark's own; Refusal when SPARK_HOME has none."""
    home = os.environ.get("SPARK_HOME")
    found = Path(home or Path(pyspark.__file__).parent) / "bin" / "spark-submit"
    if not found.is_file():
        raise Refusal(f"SPARK_HOME {home}: has no bin/spark-submit")
    return str(found)


def command(config: TwinConfig, path: str, more: Sequence[str], scratch: Path) -> list[str]:
    """Return the command line, which holds no secret; Refusal for an option that is not its user's."""
    for word in more:
        if word.partition("=")[0] in _OURS:
            raise Refusal(f"{word}: settings of Spark stand in spark_conf of {path}")
    found = [program(), "--deploy-mode", "client"]
    # Else another setting, or a variable, names the Python of the driver.
    settings = {**launch_settings(config, scratch), "spark.pyspark.driver.python": sys.executable}
    for name, value in settings.items():
        found += ["--conf", f"{name}={value}"]
    return [*found, *more, _DRIVER, path]


def main(arguments: list[str]) -> int:
    """Run until the twin ends; 2 for bad input, 128 and its number for a signal that ended spark-submit."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m twin.spark_submit CONFIG.json [OPTION OF spark-submit...]", file=sys.stderr)
        return 2
    scratch: Path | None = None
    try:
        config = read_twin_config(arguments[0])
        scratch = make_scratch(config)
        words = command(config, str(Path(arguments[0]).resolve()), arguments[1:], scratch)
        return _run(words, config)
    except Refusal as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _run(words: list[str], config: TwinConfig) -> int:
    paths = [_HERE, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        "SPARK_LOCAL_IP": config.driver_host,
        **os.environ,
        **config.shipped_secrets(),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    child: subprocess.Popen[bytes] | None = None
    asked = False

    def end(*_: Any) -> None:
        nonlocal asked
        asked = True
        if child is not None:
            _end(child)

    for number in heeded(signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    # Of a group of its own: what ends this process from a terminal would end Java before the twin.
    with subprocess.Popen(words, env=environment, start_new_session=True) as started:
        child = started
        if asked:
            _end(started)
        code = started.wait()
    return code if code >= 0 else _SIGNALLED - code


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the twin in order; before there is one, spark-submit."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(child.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.cmdline()[1:2] == [_DRIVER]:
                    process.terminate()
                    return
        child.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
