"""Leaving loops and threads by call, as TIR spells it."""

from __future__ import annotations

from typing import Any

from tvm.tirx import stmt as S

from tile_core.errors.frontend import ControlFlowError
from tile_core.errors.ops import NotPortableError
from tile_core.frontend.control import leave_loop
from tile_core.language.control import loop_break
from tile_core.language.refused import refused

__all__ = ["break_loop", "continue_loop", "thread_return"]


def break_loop(span: Any = None) -> None:
    """Leave the innermost loop; `T.loop_break` and `break` do the same.

    Example:
        for k in range(64):
            if X[k] > 3.0:
                T.break_loop()
    """
    loop_break()


def continue_loop(span: Any = None) -> None:
    """Go on with the next iteration of the innermost loop; `continue` does the same.

    Raises:
        ControlFlowError: the loop is unrolled by Python, or its iterations have no order.

    Example:
        for k in range(64):
            if X[k] == 3.0:
                T.continue_loop()
            X[k] = 0.0
        assert X[3] == 3.0
    """
    if leave_loop("T.continue_loop", S.Continue):
        raise ControlFlowError("T.continue_loop in a loop that Python unrolls", remedy="write `continue`")


@refused
def thread_return(span: Any = None) -> None:
    """Refused: a thread that ends early would miss the barriers that the compiler places.

    Raises:
        NotPortableError: always.
    """
    raise NotPortableError(
        "T.thread_return: a thread that ends early misses the barriers that the compiler places",
        remedy="guard the rest of the kernel with `if`",
    )
