"""Each Java that is held to its first compiler has the room that it needs for what it compiles."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.java import FULL_JAVA, QUICK_JAVA
from twin.config import TwinConfig
from twin.session import java_of

ROOT = Path(__file__).parents[2]
PRODUCT = ("ivsim", "twin", "gateways", "simulator", "schemas", "compose", "bench")
# Each of these makes Java reserve 48 MB for what it compiles (compilerDefinitions.cpp of OpenJDK).
HELD_BACK = re.compile(r"TieredStopAtLevel|-TieredCompilation|ReservedCodeCacheSize|CompilationMode")


def test_both_words_state_the_room() -> None:
    for options in (QUICK_JAVA, FULL_JAVA):
        assert "-XX:ReservedCodeCacheSize=240m" in options


def test_no_part_holds_its_java_back_in_words_of_its_own() -> None:
    files = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert len(files) > 300
    texts = {path: path.read_text(errors="ignore") for path in files if path.suffix not in {".pyc", ".jar"}}
    found = {path.relative_to(ROOT).as_posix() for path, text in texts.items() if HELD_BACK.search(text)}
    assert found == {"schemas/java.py"}


def test_spark_is_told_of_it_whatever_its_word() -> None:
    for word in ("quick", "full"):
        config = TwinConfig(run_dir="/nowhere", topology="echo", jit=word)
        assert "-XX:ReservedCodeCacheSize=240m" in java_of(config, Path("/nowhere")).split()
