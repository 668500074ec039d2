"""The pages' templates (`templates/`): what is put into one is escaped, unless it is `Markup`."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, **values: Any) -> str:
    """Return a template with its values; a name that is missing is an error, and no empty text."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ivsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
