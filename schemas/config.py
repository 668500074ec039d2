"""Reads what a process is told: one JSON file against one pydantic model, refused in one line; it opens nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from schemas.errors import Refusal

Model = TypeVar("Model", bound=BaseModel)


def read_config(path: str | os.PathLike[str], model: type[Model]) -> Model:
    """Return the configuration in a JSON file; Refusal names the file, the key and what is wrong with it."""
    try:
        words: object = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise Refusal(f"{path}: line {error.lineno}: no JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: no JSON: byte {error.start} is no UTF-8") from None
    return checked(words, model, str(path))


def checked(words: object, model: type[Model], where: str) -> Model:
    """Return `words` as the model; Refusal names `where`, the key, and the keys there are where one is unknown."""
    try:
        return model.model_validate(words)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        keys = f" (keys: {', '.join(model.model_fields)})" if first["type"] == "extra_forbidden" else ""
        raise Refusal(f"{where}: {key}: {first['msg']}{keys}") from None
