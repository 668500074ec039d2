"""A share's result in an object store: its run puts it there, and who joins the shares takes it from there.

Below the place each share has a folder of its own, `share-K`. The checksums go last: a folder without them is no whole result.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyarrow import ArrowException, fs

from ivsim.options import RunOptions, option_name
from ivsim.runs.checksums import SUMS, read_checksums
from ivsim.runs.interrupt import unhurried
from ivsim.share import share_of
from schemas.errors import Refusal
from twin.object_store import in_one_line, reached
from twin.place import Place

_FOLDER: Final = re.compile(r"share-[0-9]{1,4}")
_CHUNK_BYTES: Final = 1 << 20


def folder_of(options: RunOptions) -> Place | None:
    """Return where the result of a share is put; None where nobody wants it anywhere."""
    if options.share is None or options.share_results is None:
        return None
    return Place(options.share_results) / f"share-{share_of(options.share).number}"


def refuse_taken(options: RunOptions) -> None:
    """Refuse a place that has a result of this share already; what the store says where it cannot be told."""
    folder = folder_of(options)
    if folder is None:
        return
    with _told(folder):
        store, path = reached(folder, options.s3_endpoint or "")
        if store.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            raise Refusal(
                f"{option_name('share_results')} {options.share_results}: {folder} is there already; name a new place"
            )


def put(directory: Path, folder: Place, options: RunOptions) -> None:
    """Put the files of a result into its folder; Refusal with what the store says."""
    with _told(folder):
        store, path = reached(folder, options.s3_endpoint or "")
        for name in read_checksums(directory):
            with (directory / name).open("rb") as file, store.open_output_stream(f"{path}/{name}") as stored:
                shutil.copyfileobj(file, stored, _CHUNK_BYTES)
        # A stream that an exception leaves makes an object of what it has: of the checksums all, or none.
        sums = (directory / SUMS).read_bytes()
        with unhurried(), store.open_output_stream(f"{path}/{SUMS}") as stored:
            stored.write(sums)


def take(place: Place, endpoint: str, below: Path) -> list[Path]:
    """Copy the results of shares into a directory of this machine, and return where each is; Refusal where there is none."""
    with _told(place):
        store, path = reached(place, endpoint)
        found = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
        folders = [one for one in found if _FOLDER.fullmatch(one.base_name) and not one.is_file]
        for folder in folders:
            (below / folder.base_name).mkdir()
            for one in store.get_file_info(fs.FileSelector(folder.path)):
                if one.is_file:
                    copy = below / folder.base_name / one.base_name
                    with store.open_input_stream(one.path) as stored, copy.open("wb") as file:
                        shutil.copyfileobj(stored, file, _CHUNK_BYTES)
    if not folders:
        raise Refusal(f"{place}: no result of a share there (share-1, share-2, ...)")
    return [below / one.base_name for one in folders]


@contextmanager
def _told(place: Place) -> Iterator[None]:
    """Have what a store says told as a refusal; what this machine's disk says, too, by its own name."""
    try:
        yield
    except (OSError, ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the store's have no number
            raise Refusal(f"{error.filename or 'this machine'}: {error.strerror}") from None
        raise Refusal(f"{place}: {in_one_line(error)}") from None
