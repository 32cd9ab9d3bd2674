"""The comparisons that guard a loop body, solved for one loop variable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.visit import collect
from tile_core.passes.legalize_bounds import is_guard
from tile_cpu.passes.affine import Bound, solve, uses


@dataclass(frozen=True)
class Guards:
    """All comparisons in `assumed` hold where `var < min(upper)` and every condition in `row` is true.

    `upper` is int64; `row` and `upper` are free of the variable and of everything defined inside the body.
    """

    upper: tuple[ir.Expr, ...]
    row: tuple[ir.Expr, ...]
    comparisons: frozenset[ir.Expr]

    def assumed(self, comparison: ir.Expr) -> bool:
        """Whether `comparison` is one of the solved ones."""
        return comparison in self.comparisons


def guards_of(body: S.Stmt, var: ir.Var, low: ir.Expr, *, marked: bool) -> Guards:
    """The affine comparisons in the conditions of `body`, solved for `var`, which starts at `low`.

    With `marked`, only the guards of `legalize_bounds` count: they hold nearly everywhere, other conditions may not.
    A lower bound becomes a condition on the row, `lower <= low`: guards below a tile are rare, and where they fail the
    whole row takes the guarded path.
    """
    local = _defined(body)
    upper: list[ir.Expr] = []
    row: list[ir.Expr] = []
    solved: set[ir.Expr] = set()
    for comparison in _comparisons(body, marked):
        bound = solve(comparison, var)
        if bound is None or comparison in solved or uses(comparison, local):
            continue
        solved.add(comparison)
        _add(bound, low, upper, row)
    return Guards(tuple(upper), tuple(row), frozenset(solved))


def _add(bound: Bound, low: ir.Expr, upper: list[ir.Expr], row: list[ir.Expr]) -> None:
    if bound.upper is not None:
        upper.append(bound.upper)
    if bound.lower is not None:
        row.append(bound.lower <= tirx.Cast("int64", low))
    if bound.holds is not None:
        row.append(bound.holds)


def _comparisons(body: S.Stmt, marked: bool) -> Iterator[ir.Expr]:
    for branch in collect(body, S.IfThenElse):
        yield from _atoms(branch.condition, not marked)
    for call in collect(body, ir.Call):
        if isinstance(call.op, ir.Op) and call.op.name == "prim.if_then_else":
            yield from _atoms(call.args[0], not marked)


def _atoms(condition: ir.Expr, wanted: bool) -> Iterator[ir.Expr]:
    if isinstance(condition, tirx.And | tirx.Or):
        yield from _atoms(condition.a, wanted)
        yield from _atoms(condition.b, wanted)
    elif isinstance(condition, tirx.Not):
        yield from _atoms(condition.a, wanted)
    elif is_guard(condition):
        yield from _atoms(condition.args[0], True)
    elif wanted:
        yield condition


def _defined(body: S.Stmt) -> set[ir.Var]:
    """Variables that come into being inside `body`."""
    defined = {bind.var for bind in collect(body, S.Bind)}
    defined |= {let.var for let in collect(body, tirx.Let)}
    return defined | {loop.loop_var for loop in collect(body, S.For)}
