"""Small files of a checkpoint in a store, which another twin writes at the same moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from twin.checkpoint_files import SparkFiles
from twin.place import Place

# As S3A says it: it has asked for the ETag, and then for the object of that ETag.
CHANGED = (
    "An error occurred while calling o71.readAllBytes.\n: software.amazon.awssdk.services.s3.model.S3Exception: At least one"
    " of the preconditions you specified did not hold. (Service: S3, Status Code: 412, Request ID: x) (SDK Attempt Count: 1)"
)
GONE = "An error occurred while calling o71.open.\n: java.io.FileNotFoundException: No such file or directory: s3a://b/l"
DENIED = "An error occurred while calling o71.open.\n: java.nio.file.AccessDeniedException: s3a://b/l: 403"


class Store:
    """Stands for Hadoop's file system with one file; says these errors first, a call each."""

    def __init__(self, errors: list[str], *, there: bool = True) -> None:
        self.errors, self.there, self.asked = errors, there, 0

    def exists(self, _: Any) -> bool:
        self.asked += 1
        return self.there or self.asked <= len(self.errors)

    def open(self, _: Any) -> Any:
        if len(self.errors) >= self.asked:
            raise Py4JError(self.errors[self.asked - 1])
        return SimpleNamespace(readAllBytes=lambda: b"whose", close=lambda: None)


def files(store: Store, monkeypatch: pytest.MonkeyPatch) -> SparkFiles:
    found = SparkFiles(SimpleNamespace(), Place("s3a://b"))  # type: ignore[arg-type]
    monkeypatch.setattr(found, "_at", lambda name: (store, name))
    return found


def test_a_file_that_is_written_anew_while_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store([CHANGED, CHANGED])
    assert files(store, monkeypatch).read("l") == b"whose"
    assert store.asked == 3


def test_one_that_is_removed_meanwhile_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert files(Store([GONE], there=False), monkeypatch).read("l") is None


def test_what_does_not_pass_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store([DENIED] * 9)
    with pytest.raises(OSError, match="AccessDenied"):
        files(store, monkeypatch).read("l")
    assert store.asked == 1
    store = Store([CHANGED] * 9)
    with pytest.raises(OSError, match="Status Code: 412"):
        files(store, monkeypatch).read("l")
    assert store.asked == 5
