"""What an option of a run is beside its type: word, panel, unit, meaning, and when it has an effect.

It knows no option of its own: `ivsim.options` declares them, the command line (`option_signature`), the reference
(`option_reference`) and studies read the declarations.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

# How a message calls a field: `--loss` on the command line, `loss_ratio` in a study's file.
Naming = Callable[[str], str]
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Need:
    """A condition without which an option has no effect, and so is refused.

    Attributes:
        holds: whether the checked options meet it.
        says: what is missing, for the refusal: "needs --topology gateway".
        shared: a study's scenario may have the option when this holds in one of its cells at least: what it
            asks for is off, or not there, in the others, and that is what they are compared for.
    """

    holds: Callable[[Any], bool]
    says: Callable[[Any, Naming], str]
    shared: bool = False


def needs(field: str, value: str) -> Need:
    """Return the need of another option's one value."""
    return Need(
        lambda options: getattr(options, field) == value,
        lambda _options, name: f"needs {name(field)} {value}",
    )


def none_with(field: str, value: str) -> Need:
    """Return the need of any value of another option but one."""
    return Need(
        lambda options: getattr(options, field) != value,
        lambda _options, name: f"has no effect with {name(field)} {value}",
        shared=True,
    )


def needs_some(field: str) -> Need:
    """Return the need of another option that asks for something: a switch that is on, a number above 0."""
    return Need(
        lambda options: bool(getattr(options, field)),
        lambda _options, name: f"needs {name(field)}",
        shared=True,
    )


@dataclass(frozen=True)
class Option:
    """One option, beside its type, limits and default, which its field has.

    Attributes:
        help: one sentence; unit and default are added from the field.
        panel: the group of `--help`, one of the model's.
        unit: of the value: "s", "ms", "bytes", "ratio", "messages", ...; "" for none.
        word: on the command line, without dashes; None: the field's name.
        negative: the switch that says False; None for a switch that only turns on.
        choices: the values allowed, from a table; a `Literal` needs none.
        metavar: what stands for the value in `--help`; "": the word of its unit or type.
        absent: what holds when the option is not given and has no value by default.
        off: the value that asks for nothing, and is never refused for having no effect.
        cli: whether the command line has it; without, it is for studies.
        hidden: the command line takes it and `--help` does not list it.
        axis: its word as a study's axis; "" is no axis: an engine must be able to vary it from cell to cell.
        effective: what must hold for it to have an effect; the first that does not is the refusal.
    """

    help: str
    panel: str
    unit: str = ""
    word: str | None = None
    negative: str | None = None
    choices: Callable[[], Iterable[str]] | None = None
    metavar: str = ""
    absent: str = ""
    off: Any = None
    cli: bool = True
    hidden: bool = False
    axis: str = ""
    effective: tuple[Need, ...] = ()


@dataclass(frozen=True)
class Declared:
    """An option with what its field says of it.

    Attributes:
        annotation: the field's type, without None.
        optional: None is allowed.
        multiple: the command line may give it more than once.
    """

    field: str
    option: Option
    annotation: Any
    optional: bool
    default: Any
    limits: tuple[Any, ...]

    @property
    def word(self) -> str:
        """Return the word on the command line, with its dashes."""
        return "--" + (self.option.word or self.field).replace("_", "-")

    @property
    def multiple(self) -> bool:
        return get_origin(self.annotation) is tuple

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values allowed; () when it is no choice."""
        if self.option.choices is not None:
            return tuple(self.option.choices())
        return tuple(get_args(self.annotation)) if get_origin(self.annotation) is Literal else ()

    def given(self, value: Any) -> str:
        """Return the option and its value as they were typed."""
        if isinstance(value, bool):
            return self.word if value or self.option.negative is None else f"--{self.option.negative}"
        if isinstance(value, tuple | BaseModel):
            return self.word
        return f"{self.word} {value:g}" if isinstance(value, float) else f"{self.word} {value}"

    def default_text(self) -> str:
        """Return what holds when the option is not given; "" for a switch that is off."""
        if self.default is None:
            return self.option.absent
        if isinstance(self.default, bool):
            return self.word.removeprefix("--") if self.default else ""
        if isinstance(self.default, tuple | BaseModel):
            return self.option.absent
        number = f"{self.default:g}" if isinstance(self.default, float) else str(self.default)
        unit = "" if self.option.unit in {"", "ratio"} else f" {self.option.unit}"
        return number + unit

    def allowed_text(self) -> str:
        """Return the values allowed, for people: choices or limits; "" for any."""
        if self.choices:
            return ", ".join(self.choices)
        low = high = ""
        for limit in self.limits:
            match limit:
                case annotated_types.Ge(ge=bound):
                    low = f"from {_bound(bound)}"
                case annotated_types.Gt(gt=bound):
                    low = f"above {_bound(bound)}"
                case annotated_types.Le(le=bound):
                    high = f"to {_bound(bound)}"
                case annotated_types.Lt(lt=bound):
                    high = f"below {_bound(bound)}"
                case _:
                    pass
        return " ".join(word for word in (low, high) if word)


def _bound(value: Any) -> str:
    """Return a limit as a person writes it, powers of two as such."""
    if isinstance(value, int) and value > 2**30 and math.log2(value).is_integer():
        return f"2^{int(math.log2(value))}"
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def declared(model: type[BaseModel]) -> Mapping[str, Declared]:
    """Return the model's options by field, in its order; every field must have one."""
    return {name: _declared(name, field) for name, field in model.model_fields.items()}


def _declared(name: str, field: FieldInfo) -> Declared:
    (option,) = (one for one in field.metadata if isinstance(one, Option))
    annotation, optional = field.annotation, False
    if get_origin(annotation) in {Union, types.UnionType}:
        (annotation,) = (kind for kind in get_args(annotation) if kind is not type(None))
        optional = True
    return Declared(name, option, annotation, optional, field.default, tuple(field.metadata))


# What a value from a file, or from Python, must be: the command line takes nothing else either.
_KINDS: Mapping[Any, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def of_kind(one: Declared, value: Any) -> Any:
    """Return the value; ValueError for a text, or true, where a number is wanted, and the like."""
    if value is None or one.annotation not in _KINDS:
        return value
    kind, words = _KINDS[one.annotation]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{shown(value)}: expected {words}")
    return value


def word_of(field: str, known: Mapping[str, Declared]) -> str:
    """Return the command-line word of a field, such as `--loss` for `loss_ratio`."""
    return known[field].word if field in known else "--" + field.replace("_", "-")


def refusal_of(error: ValidationError, known: Mapping[str, Declared], naming: Naming) -> str:
    """Return in one line which option is wrong, its value, and what is allowed."""
    # A field that does not exist says more than what is wrong with one that does.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    field = str(first["loc"][0]) if first["loc"] else "options"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden" and field not in known:
        return f"{naming(field)}: no such option; options are {', '.join(map(naming, known))}"
    if first["type"] == "value_error":
        return f"{naming(field)} {message}"
    return f"{naming(field)} {shown(first['input'])}: {message[:1].lower()}{message[1:]}"


def shown(value: Any) -> str:
    """Return a value as a message shows it: its beginning, if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


class Ineffective(NamedTuple):
    """An option that was given and has no effect, and the refusal that says why."""

    field: str
    refusal: str
    shared: bool


def ineffective(options: BaseModel, known: Mapping[str, Declared], naming: Naming) -> list[Ineffective]:
    """Return the options that were given and have no effect, in the model's order.

    What was not given is never refused: a default that has no effect asks for nothing.
    """
    found = []
    for name, one in known.items():
        value = getattr(options, name)
        if name not in options.model_fields_set or asks_nothing(one, value):
            continue
        missing = next((need for need in one.option.effective if not need.holds(options)), None)
        if missing is not None:
            # The word is the command line's or the file's; what was typed behind it is the same for both.
            typed = one.given(value).replace(one.word, naming(name), 1)
            found.append(Ineffective(name, f"{typed}: {missing.says(options, naming)}", missing.shared))
    return found


def asks_nothing(one: Declared, value: Any) -> bool:
    """Say whether a value asks for what would be without the option."""
    if value is None or value == one.option.off:
        return True
    return value == () or (value is False and one.option.negative is None)
