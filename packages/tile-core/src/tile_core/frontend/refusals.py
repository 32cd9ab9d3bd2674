"""The errors about loops and Python state that two readers raise.

They are the tracer, which knows the values, and the scanner `tile_core.check`, which sees only the source. One wording
stands here, so that a program is told the same by both.
"""

from __future__ import annotations

from tile_core.errors.base import SourceSpan
from tile_core.errors.frontend import (
    ConstantWhileError,
    ControlFlowError,
    LoopCarriedNameError,
    LoopElseError,
    PythonStateError,
)


def loop_else(what: str) -> LoopElseError:
    """`else` on a loop of the kernel."""
    return LoopElseError(
        f"`else` on {what}, a loop of the kernel", remedy="set a T.alloc_var where you break, and test it"
    )


def endless_while(condition: str) -> ConstantWhileError:
    """`while` with a condition that is known to be true."""
    return ConstantWhileError(
        f"the condition of `while` is {condition} while tracing, so only a `break` could end the loop",
        remedy='put what ends it into the condition: going = T.alloc_var("int32", init=1), `while going == 1:`, and '
        "`going = 0` in place of `break`; or bound it: `for i in range(limit):` with the `break`",
    )


def unordered(word: str, what: str) -> ControlFlowError:
    """`break` or `continue` in a loop whose iterations run at once."""
    return ControlFlowError(
        f"`{word}` in {what}, whose iterations have no order", remedy="use T.serial, or guard the body with `if`"
    )


def device_return(word: str = "return") -> ControlFlowError:
    """`return` where the device decides whether it is reached."""
    return ControlFlowError(
        f"`{word}` in a device branch or loop",
        remedy="let the rest of the body stand under `if`; T.thread_return() ends the thread",
    )


def device_raise() -> ControlFlowError:
    """`raise` where the device decides whether it is reached."""
    return ControlFlowError(
        "`raise` in a device branch or loop would be raised while the kernel is compiled",
        remedy="write `assert condition, message`, which the kernel checks",
    )


def carried(name: str, where: str) -> LoopCarriedNameError:
    """A name from before a device loop that the loop reads and assigns."""
    return LoopCarriedNameError(
        f"{name} is read in a {where} that also assigns it; a Python name keeps one value for all iterations",
        remedy=f"make it a variable before the loop: {name} = T.alloc_var(dtype, init=...)",
    )


def changed_state(kind: str, name: str, where: str, span: SourceSpan | None = None) -> PythonStateError:
    """A Python container that a device region changes."""
    return PythonStateError(
        f"the Python {kind} {name} is changed inside a {where}, whose body is traced once",
        remedy="use T.alloc_var or a buffer for run-time state, or loop over a Python sequence",
        span=span,
    )
