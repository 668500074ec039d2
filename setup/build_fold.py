"""Build our few Java classes (Java 17) into jars with Eclipse's compiler, which a Java runtime can run: no JDK.

They are the twin's fold (twin/fold), and what the Java ways to Kafka of the engine `clients` need.
`python setup/build_fold.py` does nothing when each jar is of its sources, of the installed PySpark or of Kafka's jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ivsim.study.engines.pipe.platforms.kafka_libraries import jar as frames  # noqa: E402
from twin.fold_jar import SOURCES, SOURCES_KEY, built_jar, manifest, source_digest  # noqa: E402

SPARK_KEY = "Ivsim-Built-For-Spark"
KAFKA_KEY = "Ivsim-Built-For-Kafka"
TOOLS = ROOT / ".jars" / "java"
# A jar is the same, byte for byte, whenever it is built.
_STAMP = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    """Build the jars that are missing or old."""
    version, jars = spark_jars()
    build("the twin's fold", SOURCES, built_jar(), {SPARK_KEY: version}, jars)
    version, jars = kafka_jars()
    build("the clients' frames", frames.SOURCES, frames.built_jar(), {KAFKA_KEY: version}, jars)


def build(what: str, sources: Path, jar: Path, built_for: dict[str, str], jars: list[Path]) -> None:
    """Build a jar where it is missing or old."""
    wanted = {SOURCES_KEY: source_digest(sources), **built_for}
    if jar.is_file() and wanted.items() <= manifest(jar).items():
        return
    print(f"setup: compiling {what} into .jars/{jar.parent.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="ivsim-java-") as scratch:
        classes = Path(scratch)
        compile_java(sources, classes, jars)
        write_jar(jar, classes, wanted)


def kafka_jars() -> tuple[str, list[Path]]:
    """Return the version of Kafka's client and its jar; exits when set-up has not fetched it."""
    found = sorted((ROOT / ".jars" / "kafka").glob("kafka-clients-*.jar"))
    if len(found) != 1:
        sys.exit(f"setup: {len(found)} jars of kafka-clients in {ROOT / '.jars' / 'kafka'}: run `make setup`")
    return found[0].stem.rpartition("-")[2], found


def spark_jars() -> tuple[str, list[Path]]:
    """Return the version of the installed PySpark and the jars it carries, without importing it."""
    from importlib.metadata import distribution  # noqa: PLC0415

    pyspark = distribution("pyspark")
    return pyspark.version, sorted(Path(str(pyspark.locate_file("pyspark/jars"))).glob("*.jar"))


def tool(name: str) -> Path:
    """Return the one jar of a tool that set-up fetched; exits when it is not there."""
    found = sorted(TOOLS.glob(f"{name}-*.jar"))
    if len(found) != 1:
        sys.exit(f"setup: {len(found)} jars of {name} in {TOOLS}: run `make setup`")
    return found[0]


def java(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a short-lived Java program and return what it said."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def class_path(*places: Path) -> str:
    return os.pathsep.join(str(place) for place in places)


def compile_java(sources: Path, classes: Path, jars: list[Path]) -> None:
    """Compile a folder of sources; exits with the compiler's words when there is an error or a warning."""
    options = ["-17", "-g", "-encoding", "UTF-8", "-proc:none", "-failOnWarning", "-cp", class_path(*jars)]
    done = java("-jar", str(tool("ecj")), *options, "-d", str(classes), str(sources))
    if done.returncode != 0:
        sys.exit(f"setup: {sources} does not compile\n{done.stdout}{done.stderr}")


def write_jar(jar: Path, classes: Path, attributes: dict[str, str]) -> None:
    """Write a jar beside its place and move it there: nobody reads half of one."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    lines = {"Manifest-Version": "1.0", **attributes}
    files = {"META-INF/MANIFEST.MF": "".join(f"{k}: {v}\n" for k, v in lines.items()).encode() + b"\n"}
    for path in sorted(classes.rglob("*.class")):
        files[path.relative_to(classes).as_posix()] = path.read_bytes()
    part = jar.with_name(f"{jar.name}.{os.getpid()}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _STAMP), content, zipfile.ZIP_DEFLATED)
    part.replace(jar)


if __name__ == "__main__":
    main()
