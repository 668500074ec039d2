"""The parameters of a Typer command, made from declared options and from the words of the protocols.

Typer reads a command's parameters from its signature. A command that takes `**given` gets, in place of it, one
parameter for each option, without a value unless it was typed: so what is in `given` is what the user asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer
from pydantic import BaseModel

from gateways.protocols.base import Protocol, Word
from ivsim.option import Declared
from schemas.errors import Refusal

METAVARS = {
    "s": "SECONDS", "ms": "MS", "ratio": "RATIO", "bytes": "BYTES", "messages": "MESSAGES", "packets": "PACKETS",
}  # fmt: skip
# An option is also read from the environment: --loss-timeout from IVSIM_RUN_LOSS_TIMEOUT.
VARIABLES = "IVSIM_RUN_"
_PLAIN = (int, float, str, bool)


def taking(parameters: Iterable[inspect.Parameter]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that puts parameters in the place of a command's `**given`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        # Typer looks at the annotations too: those of what it is not to see must be gone.
        signature = inspect.Signature([*parameters, *own])
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
        return command

    return decorate


def option_parameters(
    known: Mapping[str, Declared], panels: Iterable[str], *, variables: str | None = VARIABLES
) -> list[inspect.Parameter]:
    """Return one parameter for each option that the command line has, panel by panel.

    Args:
        known: the options.
        panels: of the help, in their order.
        variables: how variables of the environment begin that are read, too; None: none are.
    """
    shown = [one for one in known.values() if one.option.cli]
    return [_parameter(one, variables) for panel in panels for one in shown if one.option.panel == panel]


@dataclass(frozen=True)
class ModeWord:
    """One word of the command line that chooses a mode, of each protocol that has it."""

    name: str
    having: tuple[tuple[Protocol, Word], ...]

    @property
    def kind(self) -> type:
        return type(self.having[0][1].values[0])

    @property
    def typed(self) -> str:
        """Return how it is typed, with the switch that says False."""
        negative = next((word.negative for _, word in self.having if word.negative), None)
        return "--" + self.name.replace("_", "-") + (f"/--{negative}" if negative else "")

    @property
    def sentences(self) -> list[str]:
        return [f"{protocol.label}: {word.help}" for protocol, word in self.having]

    @property
    def default(self) -> str:
        found = {}
        for protocol, word in self.having:
            value = protocol.modes[protocol.default_mode].options[self.name]
            found[protocol.label] = (
                self.name if value is True else str(word.negative) if value is False else str(value)
            )
        if len(set(found.values())) == 1:
            return next(iter(found.values()))
        return ", ".join(f"{value} with {label}" for label, value in found.items())

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values that are typed behind it; () for a switch."""
        if self.kind is bool:
            return ()
        return tuple(dict.fromkeys(str(value) for _, word in self.having for value in word.values))


def mode_words(protocols: Iterable[Protocol]) -> list[ModeWord]:
    """Return every word that chooses a mode, once, in the protocols' order."""
    owners: dict[str, list[tuple[Protocol, Word]]] = {}
    for protocol in protocols:
        for name, word in protocol.words.items():
            owners.setdefault(name, []).append((protocol, word))
    return [ModeWord(name, tuple(having)) for name, having in owners.items()]


def word_parameters(
    protocols: Iterable[Protocol],
    panel: str,
    *,
    words: Iterable[str] | None = None,
    variables: str | None = VARIABLES,
) -> list[inspect.Parameter]:
    """Return one parameter for each word that chooses a mode.

    Args:
        protocols: whose words.
        panel: of the help.
        words: the names of those that the command has; None: all.
        variables: as of `option_parameters`.
    """
    wanted = None if words is None else set(words)
    return [
        _made(
            word.name,
            word.kind,
            [word.typed],
            help_text(" ".join(word.sentences), word.default),
            panel,
            metavar=None if word.kind is bool else metavar_of(word.kind),
            values=word.values,
            variables=variables,
        )
        for word in mode_words(protocols)
        if wanted is None or word.name in wanted
    ]


def help_text(sentence: str, default: str) -> str:
    """Return a help text with its default, as every option has it."""
    return f"{sentence} (default {default})" if default else sentence


def _parameter(one: Declared, variables: str | None) -> inspect.Parameter:
    kind = one.annotation
    plain: Any = kind if kind in _PLAIN else list[str] if get_origin(kind) is tuple else str
    sentence = one.option.help
    if one.choices:
        sentence = f"{sentence.removesuffix('.')}: {', '.join(one.choices)}."
    return _made(
        one.field,
        plain,
        [one.word + (f"/--{one.option.negative}" if one.option.negative else "")],
        help_text(sentence, one.default_text()),
        one.option.panel,
        hidden=one.option.hidden,
        metavar=None
        if plain is bool
        else one.option.metavar or METAVARS.get(one.option.unit, metavar_of(plain)),
        values=one.choices,
        variables=variables,
    )


def metavar_of(kind: Any) -> str:
    """Return the word that stands for a value of this type in `--help`."""
    return "NUMBER" if kind in (int, float) else "PATH" if kind is Path else "TEXT"


def _made(
    name: str,
    kind: Any,
    words: list[str],
    text: str,
    panel: str,
    *,
    hidden: bool = False,
    metavar: str | None = None,
    values: tuple[str, ...] = (),
    variables: str | None = VARIABLES,
) -> inspect.Parameter:
    word = words[0].partition("/")[0].removeprefix("--").replace("-", "_").upper()
    info = typer.Option(
        *words,
        help=text,
        rich_help_panel=panel,
        show_default=False,
        hidden=hidden,
        metavar=metavar,
        envvar=None if variables is None else variables + word,
        show_envvar=False,
        autocompletion=(lambda incomplete: [v for v in values if v.startswith(incomplete)])
        if values
        else None,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )


def check_variables(
    parameters: Iterable[inspect.Parameter],
    environment: Iterable[str],
    variables: str = VARIABLES,
    others: Iterable[str] = (),
) -> None:
    """Refuse a variable of the environment that is meant for an option, and is none's.

    Args:
        parameters: the options.
        environment: the names of the variables that there are.
        variables: how those of this command begin.
        others: variables of this command that are no options.
    """
    known = {info.envvar for one in parameters for info in one.annotation.__metadata__} | set(others)
    for name in environment:
        if name.startswith(variables) and name not in known:
            raise Refusal(f"{name}: no such option; there are {', '.join(sorted(map(str, known)))}")


def given_of(model: type[BaseModel], parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was typed: the model's own options, and the other words."""
    typed = {name: value for name, value in parameters.items() if value not in (None, [])}
    own = {name: value for name, value in typed.items() if name in model.model_fields}
    return own, {name: value for name, value in typed.items() if name not in own}
