"""What the commands that write files have in common: a place that cannot be written is a refusal, not a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import Refusal


def check_writable(option: str, path: Path) -> None:
    """Refuse, before work goes into it, a file that cannot be written in the end; nothing is left or changed."""
    there = path.exists()
    with writing(option, path), path.open("a"):
        pass
    if not there:
        path.unlink()


def check_page(html: Path, first: Path, second: Path) -> None:
    """Refuse a page that cannot be written, and one inside a result, whose files are its own."""
    for result in (first, second):
        if html.resolve().is_relative_to(result.resolve()):
            raise Refusal(f"--html {html}: lies in {result}, whose files are its own; name another place")
    check_writable("--html", html)


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turn what the system says of a place that cannot be written into a Refusal that names option and place."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{option} {path}: {error.strerror or error}") from None
