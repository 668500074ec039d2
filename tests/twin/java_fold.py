"""The Java module's own tests and its runner, compiled as set-up compiles the fold itself: without a JDK."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.twin.fold_cases import MODULE

sys.path.append(str(MODULE.parents[1] / "setup"))

import build_fold


def compile_tests(place: Path) -> str:
    """Compile the module's sources and tests below a directory; return the class path that runs them."""
    _, spark = build_fold.spark_jars()
    jars = [build_fold.tool("junit-platform-console-standalone"), *spark]
    main, test = place / "classes", place / "test-classes"
    build_fold.compile_java(MODULE / "src" / "main" / "java", main, spark)
    build_fold.compile_java(MODULE / "src" / "test" / "java", test, [main, *jars])
    shutil.copytree(MODULE / "src" / "test" / "resources", test, dirs_exist_ok=True)
    return build_fold.class_path(test, main, *jars)


def run_junit(class_path: str) -> subprocess.CompletedProcess[str]:
    """Run every JUnit test on the class path."""
    classes = class_path.split(":", 1)[0]
    return build_fold.java(
        "-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "execute",
        "--scan-class-path", classes, "--details=tree", "--disable-banner", "--fail-if-no-tests",
    )  # fmt: skip


class FoldRunner:
    """A JVM that folds one made-up stream after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def fold(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()


@contextmanager
def fold_runner(class_path: str) -> Iterator[FoldRunner]:
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        class_path,
        "ivsim.twin.FoldRunner",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield FoldRunner(process)
