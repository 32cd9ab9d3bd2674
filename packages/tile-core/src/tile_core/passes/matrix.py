"""Matrix products that the target's own instructions compute.

`mark_matrix_ops` keeps each `tile.gemm` beside its loops, as `mark_reductions` does. A backend's `MatrixUnits` says
which of them it has instructions for and how those want their tiles: C, and A where it is a fragment, digit by digit
over the threads; shared operands in a swizzled order. Where a tile cannot be held that way, the loops run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.layouts.digits import AxisDigits
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view

if TYPE_CHECKING:
    from tile_core.layouts.swizzle import SwizzledTile
    from tile_core.passes.base import PassContext
    from tile_core.passes.thread_scope import ThreadScope

MATRIX = "tile.matrix"
PRODUCTS = ("tile.gemm", "tile.gemm_sp", "tile.gemm_scaled")
"""The ops that are products of matrices."""
HOLD = "tile.hold"
"""Attribute with an empty body: what computes the fragment that is its node stays above the wait that follows."""
STORE = "tile.matrix_store"
"""Attribute around a copy between a tile and a fragment of a product, its node the call; instructions may make it."""
SETTLE = "tile.settle"
"""Attribute with an empty body: a product whose result is the fragment that is its node is waited for.

Its value is the number of later products that may still run, or `WAITED`.
"""
WAITED = -1
"""Value of `SETTLE` where the wait stands elsewhere: only the uses of the result stay behind this point."""


@dataclass(frozen=True)
class Held:
    """How the threads hold a fragment of a product: the digits of its rows and columns, its last two axes.

    `shares_rows`: its rows are those of C, and dealt alike.
    """

    buffer: ir.Var
    rows: AxisDigits
    columns: AxisDigits
    shares_rows: bool = True


class MatrixProduct(Protocol):
    """One product that instructions compute.

    `held` are the fragments among its operands; `tiles` are the shared ones whose order instructions prescribe.
    """

    @property
    def held(self) -> tuple[Held, ...]:
        """Fragments, C first."""
        ...

    @property
    def tiles(self) -> Mapping[ir.Var, SwizzledTile]:
        """Shared operands and how they lie in memory."""
        ...

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """The statements that every thread of the block runs."""
        ...


class MatrixUnits(Protocol):
    """What a target multiplies matrices with."""

    @property
    def memories(self) -> frozenset[str]:
        """Scopes of memory of the target's own in which operands may be, whole: neither fragments nor shared tiles."""
        ...

    def product(self, call: OpCall, threads: int, capabilities: Any) -> MatrixProduct | None:
        """How `call` is computed by a block of `threads`; `None` where no instruction covers it.

        Fragments among the operands are whole tiles.
        """
        ...

    def explain(self, call: OpCall, threads: int) -> str:
        """For the report: the instruction that computes `call`, and why not another that would be faster."""
        ...

    def store(self, call: OpCall, scope: ThreadScope) -> S.Stmt | None:
        """How instructions make the copy `call` of a result into a shared tile, or of one into an operand.

        `None` where its loops do.
        """
        ...

    def hold(self, fragment: ir.Var, scope: ThreadScope) -> S.Stmt:
        """Keep what computes `fragment` above a wait that follows, so that both run at the same time."""
        ...

    def settle(self, fragment: ir.Var, in_flight: int, scope: ThreadScope, span: ir.Span | None = None) -> S.Stmt:
        """Wait until no more than `in_flight` products run, the last ones; `fragment` holds its result then.

        Where `in_flight` is `WAITED` the wait stands elsewhere.
        """
        ...


@runtime_checkable
class TakesMoved(Protocol):
    """Units that multiply an operand which has left the registers, too: as the shared tile that it has become."""

    def takes_moved(self, call: OpCall) -> bool:
        """Whether a product is computed with operands in shared memory."""
        ...


@dataclass(frozen=True)
class Multiplier:
    """A launch's question to the units: `elsewhere` are tiles that have several names or have left the registers.

    `named` are those among them that have several names, or belong to several groups of threads.
    """

    units: MatrixUnits | None
    threads: int
    capabilities: Any
    named: frozenset[ir.Var] = frozenset()

    def product(
        self, stmt: S.AttrStmt, elsewhere: frozenset[ir.Var], moved: Mapping[ir.Var, ir.Var] = MappingProxyType({})
    ) -> MatrixProduct | None:
        """The product that a marked statement is computed as; `None` where its loops run.

        `moved`: fragments that have left the registers, and the shared tiles in which they are.
        """
        call = matrix_call(stmt)
        return self.of(self._with_shared(call, elsewhere, moved), elsewhere)

    def _with_shared(self, call: OpCall, elsewhere: frozenset[ir.Var], moved: Mapping[ir.Var, ir.Var]) -> OpCall:
        """`call` with the shared tiles of operands that have left the registers, where the units take them."""
        units: object = self.units
        if not isinstance(units, TakesMoved):
            return call
        args = dict(call.args)
        for side in "ab":
            region = call.region(side)
            buffer = region.source
            is_moved = buffer in elsewhere and buffer not in self.named and regions.scope(buffer) == regions.FRAGMENT
            if is_moved and units.takes_moved(call):
                tile = moved[buffer] if buffer in moved else _shared_like(buffer)
                args[side] = tirx.BufferRegion(tile, list(region.region))
        return replace(call, args=args)

    def of(self, call: OpCall, elsewhere: frozenset[ir.Var]) -> MatrixProduct | None:
        """The product that a call is computed as."""
        if self.units is None:
            return None
        for side in "abc":
            region = call.region(side)
            if region.source in elsewhere or not self._is_operand(region):
                return None
        return self.units.product(call, self.threads, self.capabilities)

    def explain(self, stmt: S.AttrStmt, elsewhere: frozenset[ir.Var]) -> str:
        """What the report says about a marked statement."""
        if self.units is None:
            return "scalar code"
        call = self._with_shared(matrix_call(stmt), elsewhere, {})
        regions_of = {side.upper(): call.region(side) for side in "abc"}
        moved = [side for side, region in regions_of.items() if region.source in elsewhere]
        if moved:
            return f"scalar code ({' and '.join(moved)} left the registers, or have several names)"
        parts = [side for side, region in regions_of.items() if not self._is_operand(region)]
        if parts:
            return f"scalar code ({' and '.join(parts)}: neither shared tiles nor whole fragments)"
        return self.units.explain(call, self.threads)

    def _is_operand(self, region: ir.TensorRegion) -> bool:
        scope = regions.scope(region.source)
        if scope in regions.SHARED:
            return True
        own = self.units is not None and scope in self.units.memories
        return (own or scope == regions.FRAGMENT) and regions.is_whole(region)


def _shared_like(buffer: ir.Var) -> ir.Var:
    return tirx.decl_buffer(list(buffer.shape), str(buffer.dtype), str(buffer.name), scope=regions.SHARED[0])


@dataclass(frozen=True)
class MarkMatrixOps:
    """Wrap every product in an attribute whose node is the call."""

    name: ClassVar[str] = "mark_matrix_ops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The program with every product marked."""
        return visit.mutate(func, (S.Evaluate, _mark))


def _mark(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
    if op_name(stmt) not in PRODUCTS:
        return stmt
    return S.AttrStmt(stmt.value, MATRIX, tirx.IntImm("int32", 1), stmt, stmt.span)


def is_hold(stmt: S.Stmt) -> bool:
    """Whether the wait behind it has a place to keep."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == HOLD


def is_settle(stmt: S.Stmt) -> bool:
    """Whether products in flight are waited for here."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == SETTLE


def is_store(stmt: S.Stmt) -> bool:
    """Whether a statement is a copy that instructions may make."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == STORE


def is_matrix(stmt: S.Stmt) -> bool:
    """Whether a statement was wrapped by `mark_matrix_ops`."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == MATRIX


def matrix_call(stmt: S.AttrStmt) -> OpCall:
    """The call that `mark_matrix_ops` kept."""
    return view(S.Evaluate(stmt.node, stmt.span), OPS)
