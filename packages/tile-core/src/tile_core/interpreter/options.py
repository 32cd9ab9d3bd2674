"""What the interpreter checks, and how it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tile_core.errors.interpreter import InterpretOptionError

if TYPE_CHECKING:
    from tile_core.errors.base import SourceSpan

PREFIX = "interpret."


@dataclass(frozen=True)
class Options:
    """Pass configs `interpret.<field>`.

    `check_races` and `check_uninitialized` cost time and can be turned off; bounds are always checked. `max_steps` ends
    a `while` loop that does not end by itself. `reversed_order` runs the blocks of a grid, and the atomic updates of a
    parallel loop, from the last to the first, and fills fresh memory with another pattern: a program whose results
    change depends on what no target promises.
    """

    check_races: bool = True
    check_uninitialized: bool = True
    max_steps: int = 1_000_000
    reversed_order: bool = False


def read_options(pass_configs: Mapping[str, Any]) -> Options:
    """The options among `pass_configs`.

    Raises:
        InterpretOptionError: a value of another type.
    """
    fields = Options.__dataclass_fields__
    given = {key.removeprefix(PREFIX): value for key, value in pass_configs.items() if key.startswith(PREFIX)}
    for name, value in given.items():
        if type(value) is not type(fields[name].default):
            raise InterpretOptionError(
                f"pass config {PREFIX + name!r} is {value!r}", remedy=f"give it a value of type {fields[name].type}"
            )
    return Options(**given)


@dataclass(frozen=True)
class Step:
    """What a step callback sees before a statement runs.

    `span` is where the statement stands, `text` how it reads, `variables` the loop variables outside of `T.Parallel`.
    """

    span: SourceSpan | None
    text: str
    variables: Mapping[str, int]


StepCallback = Callable[[Step], None]
