"""The cause of an end is found in each of the ways in which our parts write it."""

from __future__ import annotations

import pytest

from schemas.last_words import CAUSE_CHARACTERS, cause_of, end_of

FRAMES = "".join(
    f"\tat org.apache.spark.sql.Dataset.step{number}(Dataset.scala:{number})\n" for number in range(200)
)

CODE_CACHE = (
    "OpenJDK 64-Bit Server VM warning: CodeCache is full. Compiler has been disabled.\n"
    "OpenJDK 64-Bit Server VM warning: Try increasing the code cache size using -XX:ReservedCodeCacheSize=\n"
)
PY4J = (
    "Traceback (most recent call last):\n"
    '  File "/x/twin/job.py", line 7, in start\n    query.start()\n    ^^^^^^^^^^^^^\n'
    "py4j.protocol.Py4JJavaError: An error occurred while calling o52.collectToPython.\n"
)
CASES = {
    "nothing": ("", ""),
    "blank lines": ("\n \n", ""),
    "a line": ("ledger: vehicle 7: 3 due, 2 placed\n", "ledger: vehicle 7: 3 due, 2 placed"),
    "the last of some lines": ("opening\nno such vehicle: 7\n\n", "no such vehicle: 7"),
    "what is lost in the code cache, at the top of a long trace": (
        f"{CODE_CACHE}{PY4J}: java.lang.VirtualMachineError: Out of space in CodeCache for adapters\n{FRAMES}\n",
        "java.lang.VirtualMachineError: Out of space in CodeCache for adapters",
    ),
    "a full code cache, and a failure that does not say why": (
        f"[61.2s][warning][codecache] CodeCache is full. Compiler has been disabled.\n{PY4J}",
        "CodeCache is full. Compiler has been disabled.",
    ),
    "no memory, with consequences": (
        (
            "java.lang.OutOfMemoryError: Java heap space\nDumping heap to x ...\n"
            f"[2026-01-31 12:00:00,123] ERROR it stops (kafka.Kafka$)\njava.lang.IllegalStateException: closed\n{FRAMES}"
        ),
        "java.lang.OutOfMemoryError: Java heap space",
    ),
    "no memory in a task": (
        (
            "12:00:00.123 ERROR Executor: Exception in task 0.0 in stage 3.0 (TID 6)\n"
            f"java.lang.OutOfMemoryError: Metaspace\n{FRAMES}12:00:00.200 WARN x: and on\n"
        ),
        "java.lang.OutOfMemoryError: Metaspace",
    ),
    "a crash of Java": (
        (
            "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n"
            "#  SIGSEGV (0xb) at pc=0x00007f, pid=7, tid=9\n#\n# Problematic frame:\n# C  [libc.so.6+0x1]\n#\n"
        ),
        "SIGSEGV (0xb) at pc=0x00007f, pid=7, tid=9",
    ),
    "a machine without memory": (
        (
            "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n"
            "# Native memory allocation (mmap) failed to map 16384 bytes for committing reserved memory.\n"
        ),
        "There is insufficient memory for the Java Runtime Environment to continue.",
    ),
    "Java's innermost cause": (
        (
            f'Exception in thread "main" java.lang.RuntimeException: outer\n{FRAMES}'
            f"Caused by: java.io.IOException: middle\n\tat a.B.c(D.java:1)\n\t... 12 more\n"
            f"Caused by: java.net.BindException: Address already in use\n{FRAMES}\t... 14 more\n"
        ),
        "java.net.BindException: Address already in use",
    ),
    "Java's only exception, at the top": (
        f'Exception in thread "main" java.lang.NoClassDefFoundError: kafka/Kafka\n{FRAMES}',
        "java.lang.NoClassDefFoundError: kafka/Kafka",
    ),
    "an exception with a message of three lines": (
        f"java.lang.IllegalArgumentException: not so:\nthe first\nthe second\n{FRAMES}",
        "java.lang.IllegalArgumentException: not so:",
    ),
    "what a server logs, and then how it closes": (
        (
            "[2026-01-31 12:00:00,123] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)\n"
            f"java.lang.IllegalArgumentException: no such listener\n{FRAMES}"
            "[2026-01-31 12:00:00,200] INFO [KafkaRaftServer nodeId=1] shut down (kafka.server.KafkaRaftServer)\n"
        ),
        "java.lang.IllegalArgumentException: no such listener",
    ),
    "an error of one line before words without harm": (
        (
            "2026-01-31T12:00:00,123+0000 [main] ERROR o.a.p.Starter - no bookie\n"
            "2026-01-31T12:00:00,124+0000 [main] INFO  o.a.p.Starter - closed\n"
        ),
        "2026-01-31T12:00:00,123+0000 [main] ERROR o.a.p.Starter - no bookie",
    ),
    "of RabbitMQ": (
        (
            "2026-01-31 12:00:00.123456+00:00 [error] <0.254.0> Failed to start listener\n"
            "2026-01-31 12:00:00.123457+00:00 [info] <0.254.0> stopping\n"
        ),
        "2026-01-31 12:00:00.123456+00:00 [error] <0.254.0> Failed to start listener",
    ),
    "a warning with its trace is not the cause": (
        (
            "12:00:00.123 WARN NetworkClient: not there\n"
            f"java.net.ConnectException: Connection refused\n{FRAMES}the producer cannot go on: fenced\n"
        ),
        "the producer cannot go on: fenced",
    ),
    "harmless words alone are better than none": (
        "12:00:00.123 INFO x: begun\n12:00:01.123 WARN x: slow\n",
        "12:00:01.123 WARN x: slow",
    ),
    "Python": (
        (
            'Traceback (most recent call last):\n  File "/x/y.py", line 7, in f\n    g()\n    ~^^\n'
            "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds\n"
        ),
        "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds",
    ),
    "Python, with a message of many lines": (
        (
            'Traceback (most recent call last):\n  File "/x/y.py", line 7, in f\n    g()\n'
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for TwinConfig\nrun_dir\n  Field required\n"
        ),
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for TwinConfig",
    ),
    "Python, one behind the other": (
        (
            'Traceback (most recent call last):\n  File "/x/y.py", line 7, in f\n    g()\nKeyError: 7\n\n'
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "/x/y.py", line 9, in f\n    h()\nValueError: no seventh\n'
        ),
        "ValueError: no seventh",
    ),
    "Java's cause below a query's": (
        (
            f"{PY4J.rpartition('py4j')[0]}pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query\n"
            "=== Streaming Query ===\nIdentifier: twin\n\nJVM stacktrace:\n"
            f"org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED]\n{FRAMES}"
            f"Caused by: java.nio.file.NoSuchFileException: /x/checkpoint/offsets/0\n{FRAMES}"
        ),
        "java.nio.file.NoSuchFileException: /x/checkpoint/offsets/0",
    ),
    "what Java says of its options is no cause": (
        "the disk is gone\nPicked up JAVA_TOOL_OPTIONS: -Xmx1g\n",
        "the disk is gone",
    ),
    "a server on a machine of its own": (
        (
            f"java.lang.IllegalStateException: no log\n{FRAMES}the server on the machine ended with exit code 1\n"
            "reboot: System halted\n"
        ),
        "java.lang.IllegalStateException: no log",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause(case: str) -> None:
    text, cause = CASES[case]
    assert cause_of(text) == cause


def test_a_cause_is_one_line_of_bounded_length() -> None:
    assert cause_of(f"KeyError:\t{'x' * 5_000}") == f"KeyError: {'x' * (CAUSE_CHARACTERS - 11)}…"


def test_the_end_shows_words_and_not_frames() -> None:
    text = f"begun\njava.io.IOException: outer\n{FRAMES}Caused by: java.io.IOException: inner\n{FRAMES}\n\nended\n"
    lines = end_of(text, 12).splitlines()
    assert [line for line in lines if not line.startswith("\tat ")] == [
        "begun",
        "java.io.IOException: outer",
        "Caused by: java.io.IOException: inner",
        "ended",
    ]
    assert len(lines) == 6
    assert end_of(text, 1) == "ended"
    assert end_of("", 12) == ""
