"""The twin under spark-submit: what it is told, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO

import psutil
import pytest

from schemas.errors import Refusal
from tests.twin.made_up import MadeUpRun, await_taken
from tests.twin.test_twin_process import Sent, send
from twin.config import TwinConfig
from twin.spark_submit.__main__ import command, program

ROOT = Path(__file__).parents[2]


def events(output: IO[str]) -> Iterator[str]:
    """Yield the names of the twin's events; the other lines are Spark's."""
    return (json.loads(line)["event"] for line in output if line.startswith("{"))


def started(path: Path, *more: str) -> subprocess.Popen[str]:
    log = path.with_suffix(".log").open("w")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "twin.spark_submit", str(path), *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True, cwd=ROOT,
        )  # fmt: skip


@pytest.mark.spark
@pytest.mark.kafka
def test_the_twin_counts_under_spark_submit_and_a_signal_ends_it_in_order(run: MadeUpRun) -> None:
    config = run.config.model_copy(update={"spark_master": "local[8]", "checkpoint_kept": False})
    path = Path(config.run_dir) / "twin.json"
    path.write_text(json.dumps(config.model_dump()))
    sent: Sent = defaultdict(list)
    with started(path, "--verbose") as child:
        assert child.stdout is not None
        try:
            said = events(child.stdout)
            assert next(said) == "ready"
            send(run, sent, 1, 20)
            await_taken(config, sum(len(set(rows)) for rows in sent.values()))
            java = [one for one in psutil.Process(child.pid).children(recursive=True) if one.name() == "java"]
            assert len(java) == 1
            child.send_signal(signal.SIGTERM)
            assert list(said)[-1] == "done"
        finally:
            child.terminate()
        assert child.wait(60) == 0, path.with_suffix(".log").read_text()[-2_000:]
    assert not java[0].is_running()
    assert not Path(str(config.checkpoint)).exists()
    assert not (Path(config.run_dir) / ".spark").exists()


def test_no_secret_is_on_the_command_line(tmp_path: Path) -> None:
    login = tmp_path / "login.properties"
    login.write_text("username=fleet\npassword=not-to-be-seen\n")
    config = TwinConfig(
        run_dir=str(tmp_path), bootstrap="b:1", kafka_login=str(login), spark_master="spark://host:7077",
        checkpoint_dir="hdfs://host/twins", spark_conf={"spark.driver.memory": "4g"},
    )  # fmt: skip
    words = command(config, "twin.json", ["--queue", "fleet"], tmp_path)
    assert "not-to-be-seen" not in " ".join(words)
    assert "spark.master=spark://host:7077" in words
    assert "spark.driver.memory=4g" in words
    assert words[-4:-2] == ["--queue", "fleet"]
    assert Path(words[-2]).name == "driver.py"


@pytest.mark.parametrize("word", ["--conf", "--master=local", "--jars", "--deploy-mode"])
def test_an_option_that_the_configuration_decides_is_refused(tmp_path: Path, word: str) -> None:
    config = TwinConfig(run_dir=str(tmp_path), bootstrap="b:1")
    with pytest.raises(Refusal, match=f"{word}: settings of Spark stand in spark_conf of twin.json"):
        command(config, "twin.json", [word, "x"], tmp_path)


def test_a_spark_home_without_spark_submit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(Refusal, match=f"SPARK_HOME {tmp_path}: has no bin/spark-submit"):
        program()


@pytest.mark.parametrize("words", [[], ["--queue", "fleet"], ["nowhere.json"]])
def test_without_a_configuration_nothing_starts(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twin.spark_submit", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_another_release_of_spark_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("__version__ = '3.5.0'")
    driver = ROOT / "twin" / "spark_submit" / "driver.py"
    done = subprocess.run(
        [sys.executable, str(driver), "twin.json"], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == f"SPARK_HOME: PySpark 3.5.0: the twin needs {version('pyspark')}\n"
