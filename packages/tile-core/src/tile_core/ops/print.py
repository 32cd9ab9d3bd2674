"""Printing from a kernel: a tile, a value or only a message.

The portable lowering turns them into `tile.print_element` intrinsics, one printed line each: arguments are the value
and the indices (none for a scalar; no arguments at all for a message), attributes `message` and `name`. A tile is
printed in row-major order by the block, once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import regions
from tile_core.ir.ops import tile_op
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp, op_name
from tile_core.ops.build import Tile, serial
from tile_core.ops.rules import inside

if TYPE_CHECKING:
    import numpy as np


ELEMENT = "tile.print_element"


def element(value: Sequence[ir.Expr], message: str, name: str, span: ir.Span | None, *, once: bool = False) -> S.Stmt:
    """One printed line; `once` where the block prints it and not each thread."""
    call = ir.Call(
        tile_op(ELEMENT),
        list(value),
        attrs={"message": message, "name": name, "once": int(once)},
        ret_ty="void",
        span=span,
    )
    return S.Evaluate(call, span)


def is_printed_once(stmt: S.Stmt) -> bool:
    """Whether a statement is a line of a tile, which the block prints, not each of its threads."""
    return op_name(stmt) == ELEMENT and bool(stmt.value.attrs["once"])


def line(message: str, name: str, value: str = "", index: Sequence[int] = ()) -> str:
    """The text of one line, the same on every backend: `message: name[0, 1] = 2.5`."""
    place = f"[{', '.join(map(str, index))}]" if index else ""
    shown = f"{name}{place} = {value}" if value else ""
    return ": ".join(part for part in (message, shown) if part)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _message(call: OpCall) -> str:
    return str(call.attrs.get("message", ""))


def _check_tile(call: OpCall) -> None:
    inside(call, Tile(call.region("src")))


def _check_nothing(_call: OpCall) -> None:
    """Any value can be printed."""


def _reference_tile(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    name, values = Tile(call.region("src")).name, operands["src"]
    header = ": ".join(part for part in (_message(call), f"{name}, shape {values.shape}") if part)
    _write(f"{header}\n{values}")


def _reference_value(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    _write(line(_message(call), str(call.attrs["name"]), str(operands["value"])))


def _reference_message(call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    _write(line(_message(call), ""))


def _lower_tile(call: OpCall, _context: LowerContext) -> S.Stmt:
    src = Tile(call.region("src"))
    once = src.scope != regions.LOCAL

    def nest(index: list[ir.Expr]) -> S.Stmt:
        if len(index) == src.rank:
            return element([src.load(index), *index], _message(call), src.name, call.span, once=once)
        return serial(src.extents[len(index)], lambda at: nest([*index, at]), f"i{len(index)}", call.span)

    return nest([])


def _lower_value(call: OpCall, _context: LowerContext) -> S.Stmt:
    return element([call.args["value"]], _message(call), str(call.attrs["name"]), call.span)


def _lower_message(call: OpCall, _context: LowerContext) -> S.Stmt:
    return element([], _message(call), "", call.span)


PRINT = TileOp("tile.print", (Operand("src", "r"),), _check_tile, _reference_tile, _lower_tile)
PRINT_VALUE = TileOp("tile.print_value", (Operand("value", "value"),), _check_nothing, _reference_value, _lower_value)
PRINT_MESSAGE = TileOp("tile.print_message", (), _check_nothing, _reference_message, _lower_message)
