"""An object store with Amazon's S3 API, as Spark reaches it (Hadoop's S3A) and as a process of ours does (Arrow's).

Places are URIs `s3a://BUCKET/PATH`. Access keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN) or from the machine's role, and stand in no configuration, argument or log of ours: Spark's driver reads
them and hands them to executors in its Hadoop settings.
"""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

from schemas.errors import Refusal
from twin.place import PROBE, STORE, Place

_REGION: Final = "us-east-1"
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 15.0
_TRIES: Final = 3
# A file of a checkpoint appears whole or not at all: an upload that is broken off, where other file systems rename.
_ABORTABLE: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def region() -> str:
    """Return the region that requests are signed for."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION


def spark_settings(endpoint: str) -> dict[str, str]:
    """Return S3A's settings; `endpoint` is the store's URL, "" Amazon's own."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint.region": region(),
        "spark.hadoop.fs.s3a.input.stream.type": "classic",
        "spark.hadoop.fs.s3a.connection.establish.timeout": f"{_CONNECT_S:g}s",
        "spark.hadoop.fs.s3a.connection.request.timeout": f"{_ANSWER_S:g}s",
        "spark.sql.streaming.checkpointFileManagerClass": _ABORTABLE,
    }
    if endpoint:
        settings |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(urlsplit(endpoint).scheme == "https").lower(),
        }
    return settings


def jars(directory: str) -> list[str]:
    """Return the paths of S3A's jars; Refusal when the directory has none."""
    found = sorted(str(path) for path in Path(directory).glob("*.jar")) if directory else []
    if not found:
        raise Refusal(f"s3_jars_dir {directory or '(none)'}: holds no jar of S3A: run `ivsim setup s3`")
    return found


def reached(place: Place, endpoint: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a directory of this machine, of `file://` or of `s3a://`, and the path in it."""
    if not place.stored:
        return fs.LocalFileSystem(), place.removeprefix("file://")
    address = urlsplit(endpoint)
    store = fs.S3FileSystem(
        region=region(),
        endpoint_override=address.netloc or None,
        scheme=address.scheme or "https",
        connect_timeout=_CONNECT_S,
        request_timeout=_ANSWER_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return store, place.removeprefix(STORE).rstrip("/")


def check(place: Place, endpoint: str, *, writing: bool) -> None:
    """Return when a place's bucket is there and may be listed; Refusal with what the store says where not.

    Args:
        place: in the store.
        endpoint: the store's URL, "" Amazon's own.
        writing: put an object there and remove it, too.
    """
    if endpoint:
        _answers(place, endpoint)
    store, path = reached(place, endpoint)
    bucket, _, _ = path.partition("/")
    try:
        if store.get_file_info(bucket).type == fs.FileType.NotFound:
            raise Refusal(f"{place}: no bucket {bucket} at {endpoint or 'Amazon S3'}")
        store.get_file_info(fs.FileSelector(path, allow_not_found=True))
        if writing:
            probe = f"{path}/{PROBE}-{uuid.uuid4().hex[:12]}"
            with store.open_output_stream(probe) as stream:
                stream.write(b"ivsim")
            store.delete_file(probe)
    except (OSError, ArrowException) as error:
        raise Refusal(f"{place}: {in_one_line(error)}") from None


def _answers(place: Place, endpoint: str) -> None:
    """Refuse an endpoint that takes no connection: Amazon's library says of that and of much else that it is a network error."""
    address = urlsplit(endpoint)
    try:
        port = address.port or {"http": 80, "https": 443}[address.scheme]
        socket.create_connection((address.hostname or "", port), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refusal(f"{place}: no answer from {endpoint}: {said}") from None


def in_one_line(error: Exception) -> str:
    """Return what the store said: Arrow puts it behind what it was doing."""
    first = str(error).partition("\n")[0]
    return first.partition("AWS Error ")[2] or first
