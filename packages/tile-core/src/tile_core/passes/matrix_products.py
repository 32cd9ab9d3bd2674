"""What products by matrix instructions of any target have in common: who shares C, and sums of another dtype than C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir import regions
from tile_core.layouts.swizzle import UNIT_BYTES
from tile_core.ops.base import OpCall
from tile_core.ops.build import cast, number
from tile_core.passes.thread_scope import int32

FULL_ROW, FULL_COLUMN = 1, 2
"""Values of a call's `policy`; anything else is as square as possible."""


@dataclass(frozen=True)
class Refusal:
    """Why an instruction does not compute a product, as the end of a sentence."""

    why: str


def shares(m: int, n: int, rows: int, columns: int, units: int, policy: int) -> tuple[int, int] | None:
    """How many units share C along M and N, in pieces of `rows` × `columns`; `None` where they cannot.

    Without a policy the shares are as square as possible.

    >>> shares(128, 64, 16, 8, 4, policy=0)
    (2, 2)
    >>> shares(128, 64, 16, 8, 4, FULL_ROW)
    (4, 1)
    """
    found = [
        (down, units // down)
        for down in range(1, units + 1)
        if units % down == 0 and m % (rows * down) == 0 and n % (columns * (units // down)) == 0
    ]
    if not found or not m or not n:
        return None
    if policy == FULL_ROW:
        return found[-1]
    if policy == FULL_COLUMN:
        return found[0]
    return min(found, key=lambda split: m // split[0] + n // split[1])


def unrolled(count: int, body: Callable[[ir.Expr], S.Stmt], span: ir.Span | None) -> S.Stmt:
    """`body` of 0 to `count - 1`."""
    at = tirx.Var("part", "int32")
    return S.For(at, int32(0), int32(count), S.ForKind.UNROLLED, body(at), span=span)


@dataclass(frozen=True)
class Sums:
    """The registers that a product is summed in: what is done before, and what is done behind."""

    before: list[S.Stmt]
    array: ir.Var
    after: list[S.Stmt]


def sums_of(call: OpCall, c: ir.Var, total: DType, count: int) -> Sums:
    """The sums of a product of which a thread holds `count` elements of C in the array `c`.

    They are C's own registers where C has the dtype that is summed in, else others, converted once.
    """
    clear, span = call.args["clear_accum"], call.span
    fixed = regions.constant(clear)
    c_dtype = as_dtype(str(c.dtype))
    if c_dtype == total:
        if fixed == 0:
            return Sums([], c, [])
        body = unrolled(count, lambda at: S.BufferStore(c, number(0, total), [at], span), span)
        return Sums([body if fixed else S.IfThenElse(clear, body, None, span)], c, [])
    sums = tirx.decl_buffer((count,), total.tvm, "sums", scope=regions.LOCAL, data_alignment=UNIT_BYTES)

    def start(at: ir.Expr) -> S.Stmt:
        old = cast(tirx.BufferLoad(c, [at]), total)
        if fixed is None:
            return S.BufferStore(sums, E.Select(clear, number(0, total), old), [at], span)
        return S.BufferStore(sums, number(0, total) if fixed else old, [at], span)

    def finish(at: ir.Expr) -> S.Stmt:
        return S.BufferStore(c, cast(tirx.BufferLoad(sums, [at]), c_dtype), [at], span)

    before = [S.AllocBuffer(sums, span=span), unrolled(count, start, span)]
    return Sums(before, sums, [unrolled(count, finish, span)])
