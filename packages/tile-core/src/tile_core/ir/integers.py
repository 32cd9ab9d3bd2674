"""Which integer expressions TVM's analyzer may reason about."""

from __future__ import annotations

from tvm import ir

from tile_core.ir import visit


def is_index_arithmetic(expr: ir.Expr) -> bool:
    """Whether every part of `expr` has a dtype that indices are computed in.

    TVM's analyzer takes integers not to overflow. That is the contract of indices; unsigned and narrow integers wrap
    on purpose, in hashes and random numbers, and would teach it falsehoods: `u - 5 >= 0` says nothing about an
    unsigned u.
    """
    return all(
        str(getattr(part.ty, "dtype", "")) in ("bool", "int32", "int64") for part in visit.collect(expr, ir.Expr)
    )
