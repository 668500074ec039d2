"""An object store with Amazon's S3 API for tests: moto, in a process of its own."""

from __future__ import annotations

import sys
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.registry import RunRecord

# The secret is one that a search can find.
KEYS: Final[Mapping[str, str]] = {
    "AWS_ACCESS_KEY_ID": "ivsim-tests",
    "AWS_SECRET_ACCESS_KEY": "not-to-be-seen-4711",
}
BUCKET: Final = "ivsim"


class StoreServer(OwnedServer):
    """One store; `endpoint` is what `--s3-endpoint` takes. A bucket `BUCKET` is there when `__enter__` returns."""

    START_TIMEOUT_S = 60.0

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record, "object-store")
        self.port = self._held_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def relaunch(self) -> None:
        self._launch([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)])

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=2):
                pass
        except OSError:
            return False
        return True

    def client(self) -> Any:
        """Return a client of Amazon's own library."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def objects(self, prefix: str = "") -> list[str]:
        """Return the names of the objects in the bucket that begin so."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def await_answer(self) -> None:
        super().await_answer()
        self.client().create_bucket(Bucket=BUCKET)

    def _prepare(self) -> None:
        self._make_directory()


@contextmanager
def store_with_keys(directory: Path) -> Iterator[StoreServer]:
    """Start a store whose files are below a new directory; its keys are in the environment meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        with RunRecord(f"s{uuid.uuid4().hex[:8]}", directory) as record, StoreServer(record) as made:
            yield made
