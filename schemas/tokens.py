"""The token by which one program knows another: read from a file or the environment, refused where it is too weak."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from schemas.errors import Refusal

MIN_TOKEN_LENGTH: Final = 16


def read_token(path: str, variable: str) -> str:
    """Return the token in a file, or in the environment when `path` is empty; "" when there is none.

    Refusal for a file that cannot be read, and for a token that is short or does not print.
    """
    token = _token(path, variable)
    if token and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        source = f"token file {path}" if path else variable
        raise Refusal(f"{source}: a token has at least {MIN_TOKEN_LENGTH} printable ASCII characters")
    return token


def _token(path: str, variable: str) -> str:
    if not path:
        return os.environ.get(variable, "").strip()
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"token file {path}: not readable") from error
    if not token:
        raise Refusal(f"token file {path}: empty")
    return token
