"""Printing and assertions from a kernel."""

from __future__ import annotations

from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend import arith
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, Expr, Region, VarCell, unwrap
from tile_core.language._operands import emit, region

__all__ = ["device_assert", "print"]


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Print a buffer, a region, a value or only a message, when the kernel runs; results do not change.

    A buffer or region is printed once by the block (one of a thread's own memory by every thread), a value by every
    thread that comes by in a kernel that tells threads apart, else once. What a device prints appears when the host
    next waits for it.

    Args:
        warp_group_id, warp_id: which warp prints a tile, where there are warps.

    Raises:
        OpArgumentError: nothing to print, or an object that is no device value.

    Example:
        T.print(X[1], "second")
    """
    if obj is None and not msg:
        raise OpArgumentError("print: nothing to print", remedy="give a buffer, a value or msg=")
    if obj is None:
        emit("tile.print_message", {}, message=msg)
    elif isinstance(obj, Buffer | Region):
        if not isinstance(warp_group_id, int) or not isinstance(warp_id, int):
            raise OpArgumentError(
                f"print: warp_group_id={warp_group_id!r}, warp_id={warp_id!r}", remedy="give ints known while tracing"
            )
        emit("tile.print", {"src": region(obj, "print")}, message=msg, warp=4 * warp_group_id + warp_id)
    elif isinstance(obj, Expr | int | float):
        emit("tile.print_value", {"value": unwrap(obj)}, message=msg, name=_name(obj))
    else:
        raise OpArgumentError(
            f"print: {obj!r} of type {type(obj).__name__} is no device value",
            remedy="Python's own print shows Python values, while tracing",
        )


def _name(value: Any) -> str:
    if isinstance(value, VarCell):
        return value.name
    if isinstance(value, Element):
        return value.buffer.name
    return str(value)


def device_assert(condition: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with an error unless `condition` holds. Python's `assert` on a device value does the same.

    On a GPU the thread traps: the driver prints the message, and the error appears at the next call that waits.

    Args:
        msg: text of the error.
        no_stack_info: leave the source line out of it.

    Example:
        T.device_assert(X[1] == 1.0, "X does not count up")
    """
    text = str(msg) or "device assertion failed"
    current_builder().assertion(arith.truth(unwrap(condition)), text, located=not no_stack_info)
