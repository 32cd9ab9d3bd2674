"""What a tile op is: one declaration from which the language, the checks, the interpreter and the lowering follow.

In the IR an op is `Evaluate(Call(Op("tile.<name>"), args, attrs))`; `OpCall` is the typed view of that call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir.ops import tile_op
from tile_core.ir.spans import from_tvm

if TYPE_CHECKING:
    import numpy as np

    from tile_core.errors.base import SourceSpan

Access = Literal["r", "w", "rw", "value"]
PREFIX = "tile."


@dataclass(frozen=True)
class Operand:
    """One argument of an op: a region that is read, written or both, or a scalar `value`."""

    name: str
    access: Access


@dataclass(frozen=True)
class OpCall:
    """A call to a tile op, with its operands by name."""

    op: TileOp
    args: Mapping[str, ir.Expr]
    attrs: Mapping[str, Any]
    span: ir.Span | None = None

    def region(self, name: str) -> ir.TensorRegion:
        """The operand `name`, which is a region."""
        value = self.args[name]
        assert isinstance(value, ir.TensorRegion)
        return value

    @property
    def written(self) -> list[ir.TensorRegion]:
        """The regions that the op writes."""
        values = (self.args[operand.name] for operand in self.op.operands if "w" in operand.access)
        return [value for value in values if isinstance(value, ir.TensorRegion)]

    @property
    def source_span(self) -> SourceSpan | None:
        """Where the author wrote this call."""
        return from_tvm(self.span)

    def to_stmt(self) -> S.Stmt:
        """The statement that stands for this call in a tile program."""
        arguments = [self.args[operand.name] for operand in self.op.operands]
        call = ir.Call(tile_op(self.op.name), arguments, attrs=dict(self.attrs), ret_ty="void", span=self.span)
        return S.Evaluate(call, self.span)


@dataclass(frozen=True)
class LowerContext:
    """What a lowering may ask: the target's facts and the launch it stands in."""

    target: Any
    capabilities: Any
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TileOp:
    """A tile op. `name` carries the prefix `tile.`.

    `check` raises coded errors for shapes and dtypes that the op does not accept; it runs while tracing.
    `reference` is the meaning: it gets numpy views of the operands (scalars for `value` operands) and writes in place.
    `lower` is the portable lowering; `None` means that every backend must bring its own.
    """

    name: str
    operands: tuple[Operand, ...]
    check: Callable[[OpCall], None]
    reference: Callable[[OpCall, Mapping[str, np.ndarray]], None]
    lower: Callable[[OpCall, LowerContext], S.Stmt] | None = None

    def call(self, args: Mapping[str, ir.Expr], span: ir.Span | None = None, **attrs: Any) -> OpCall:
        """A checked call."""
        call = OpCall(self, args, attrs, span)
        self.check(call)
        return call


def op_name(stmt: S.Stmt) -> str | None:
    """The name of the tile op that a statement calls, `None` for any other statement."""
    if isinstance(stmt, S.Evaluate) and isinstance(stmt.value, ir.Call) and isinstance(stmt.value.op, ir.Op):
        name = str(stmt.value.op.name)
        return name if name.startswith(PREFIX) else None
    return None


def view(stmt: S.Evaluate, table: Mapping[str, TileOp]) -> OpCall:
    """The typed view of a tile-op statement."""
    call = stmt.value
    op = table[str(call.op.name)]
    names = [operand.name for operand in op.operands]
    attrs = {} if call.attrs is None else {key: call.attrs[key] for key in call.attrs.keys()}
    return OpCall(op, dict(zip(names, call.args, strict=True)), attrs, call.span or stmt.span)
