"""Load and check the classes of Spark and Kafka ahead (AppCDS), so that each of their starts takes half the processor time.

`python setup/build_class_archives.py` does nothing when the archives are of this Java, these jars and this fold. Else it
serves one run without vehicles on a Kafka of its own, and both Javas write down at their end which classes it took. A
machine on which that does not work gets no archives, one line that says so, and slower starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from build_fold import spark_jars  # noqa: E402

from twin.class_archive import ARCHIVED, class_archive  # noqa: E402
from twin.fold_jar import fold_jar  # noqa: E402

DIRECTORY = class_archive(ARCHIVED[0]).parent
STAMP = DIRECTORY / "made-for"
END_S = 300.0  # Java writes the archive when it ends


def main() -> None:
    """Build the archives where one is missing or old."""
    wanted = made_for()
    archives = [class_archive(program) for program in ARCHIVED]
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print("setup: loading the classes of Spark and Kafka ahead into .jars/classes", file=sys.stderr)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="ivsim-classes-") as scratch:
        made = [Path(scratch) / path.name for path in archives]
        environment = os.environ | {"IVSIM_STATE_DIR": f"{scratch}/state", "PYTHONPATH": str(ROOT)}
        words = [sys.executable, str(Path(__file__)), "serve", scratch]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 and all(path.is_file() for path in made):
            for new, path in zip(made, archives, strict=True):
                shutil.move(new, path)
        else:
            last = (done.stderr.strip().splitlines() or ["no archive was written"])[-1]
            print(f"setup: the classes could not be loaded ahead; starts are slower: {last}", file=sys.stderr)
    STAMP.write_text(wanted)


def made_for() -> str:
    """Return a digest of what the archives depend on: Java, and names, sizes and times of all jars."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    own = sorted(jar for kind in ("kafka", "spark") for jar in (ROOT / ".jars" / kind).glob("*.jar"))
    jars = [*spark_jars()[1], *own, fold_jar()]
    facts = [(str(jar), (status := jar.stat()).st_size, status.st_mtime_ns) for jar in jars]
    return hashlib.sha256(json.dumps([java, facts]).encode()).hexdigest()


def serve(scratch: Path) -> None:
    """Serve a run without vehicles, both Javas told to write their archive."""
    from ivsim.testbed.kafka import KafkaServer  # noqa: PLC0415
    from ivsim.testbed.registry import RunRecord  # noqa: PLC0415
    from twin import jvm  # noqa: PLC0415
    from twin.config import TwinConfig  # noqa: PLC0415
    from twin.process import TwinProcess  # noqa: PLC0415

    run = scratch / "run"
    run.mkdir()
    with (
        RunRecord("class-archives", scratch) as record,
        KafkaServer(record, java_options=[_write("kafka", scratch)]) as kafka,
    ):
        kafka.process.stop_timeout_s = END_S
        # Of Spark's two Javas the one that starts the other does not read it.
        os.environ["SPARK_SUBMIT_OPTS"] = _write("spark", scratch)
        jvm.END_S = END_S
        config = TwinConfig(
            run_dir=str(run), bootstrap=kafka.bootstrap, jars_dir=str(ROOT / ".jars" / "spark")
        )
        process = TwinProcess(config)
        try:
            process.open()
            process.finish(rejected=0)
        finally:
            process.close()


def _write(program: str, scratch: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={scratch / class_archive(program).name}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        main()
