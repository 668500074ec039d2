"""Reads what a process is told: one JSON file against one pydantic model, refused in one line; it opens nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import Refusal

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def checked(
    words: object, model: type[Model], where: str, typed: Mapping[str, str] = MappingProxyType({})
) -> Model:
    """Return `words` as the model; Refusal names `where`, the key, and the keys there are where one is unknown.

    Args:
        words: key to value.
        model: what they are checked by.
        where: the file, or the command.
        typed: key to the option of the command line that gave it, which then stands in place of both.
    """
    try:
        return model.model_validate(words)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        keys = f" (keys: {', '.join(model.model_fields)})" if first["type"] == "extra_forbidden" else ""
        message = first["msg"]
        if first["type"] == "string_pattern_mismatch":  # a pattern explains nothing to who has mistyped
            message = f"expected {model.model_fields[key].description}"
        if key in typed:
            raise Refusal(f"{typed[key]} {first['input']}: {message[:1].lower()}{message[1:]}") from None
        raise Refusal(f"{where}: {key}: {message}{keys}") from None
