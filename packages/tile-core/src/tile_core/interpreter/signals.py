"""How a statement's function says that control leaves it other than at its end."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from tile_core.interpreter.state import State


class Signal(Enum):
    """Where control goes."""

    BREAK = "break"
    CONTINUE = "continue"
    RETURN = "return"


BREAK, CONTINUE, RETURN = Signal.BREAK, Signal.CONTINUE, Signal.RETURN
Executor = Callable[[State], Signal | None]
