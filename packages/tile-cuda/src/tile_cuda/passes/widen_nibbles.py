"""Loops over lanes that take one half of each byte become instructions on words of bytes.

`staged_operands` of tile-core reorders integers of four bits so that such loops fill the operands of products: lane i
stores `byte[i] & 15`, or `byte[i] >> 4 & 15`, perhaps with its sign, as eight bits. Device compilers keep bytes in a
register each, and need several times as many instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import nibbles, regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.passes.accesses import substitute
from tile_core.passes.base import PassContext
from tile_cuda.instructions.base import address_of
from tile_cuda.instructions.nibbles import WORD_BYTES, widen_halves

BYTES = ("int8", "uint8")


class _Half(NamedTuple):
    """What a lane stores: half of the byte `load`."""

    load: ir.TensorLoad
    is_high: bool
    is_signed: bool


@dataclass(frozen=True)
class WidenNibbles:
    """See the module."""

    name: ClassVar[str] = "widen_nibbles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return func.with_body(visit.mutate(func.body, (S.For, _loop)), func.span)


def _loop(loop: S.For, mutator: Any) -> S.Stmt:
    extent = constant(loop.extent)
    if loop.kind != S.ForKind.UNROLLED or not extent or extent % WORD_BYTES or constant(loop.min) != 0:
        return mutator.default_mutate(loop)
    stmts = list(loop.body.seq) if isinstance(loop.body, S.SeqStmt) else [loop.body]
    words = [_words(stmt, loop, extent) for stmt in stmts]
    if any(word is None for word in words) or len({stmt.buffer for stmt in stmts}) < len(stmts):
        return mutator.default_mutate(loop)
    return visit.sequence([S.Evaluate(word, loop.span) for word in words if word is not None], loop.span)


def _words(stmt: S.Stmt, loop: S.For, extent: int) -> ir.Expr | None:
    """The instruction that makes a store of every lane; `None` where there is none."""
    half = _half(stmt.value) if isinstance(stmt, S.BufferStore) and str(stmt.buffer.dtype) in BYTES else None
    if half is None:
        return None
    to, start = _start(stmt.buffer, stmt.indices, loop), _start(half.load.source, half.load.indices, loop)
    if to is None or start is None:
        return None
    values, packed = address_of(stmt.buffer, to), address_of(half.load.source, start)
    return widen_halves(values, packed, count=extent, is_high=half.is_high, is_signed=half.is_signed)


def _half(value: ir.Expr) -> _Half | None:
    """The half of a byte that `nibbles.nibble` makes, as eight bits."""
    if not isinstance(value, E.Cast) or str(value.ty.dtype) not in BYTES:
        return None
    bits, is_signed = value.value, False
    if isinstance(bits, E.Sub) and constant(bits.b) == nibbles.SIGN and isinstance(bits.a, E.BitwiseXor):
        if constant(bits.a.b) != nibbles.SIGN:
            return None
        bits, is_signed = bits.a.a, True
    if not isinstance(bits, E.BitwiseAnd) or constant(bits.b) != nibbles.MASK:
        return None
    word, is_high = bits.a, False
    if isinstance(word, E.RShift):
        if constant(word.b) != nibbles.BITS:
            return None
        word, is_high = word.a, True
    load = word.value if isinstance(word, E.Cast) else None
    if not isinstance(load, ir.TensorLoad) or str(load.source.dtype) != "uint8":
        return None
    return _Half(load, is_high, is_signed)


def _start(buffer: ir.Var, indices: Any, loop: S.For) -> ir.Expr | None:
    """Where the lanes of an array of the thread begin; `None` where they are not neighbours, from a whole word on."""
    if regions.scope(buffer) != regions.LOCAL or len(indices) != 1:
        return None
    analyzer, zero = Analyzer(), E.IntImm(loop.loop_var.ty, 0)
    start = analyzer.simplify(substitute(indices[0], {loop.loop_var: zero}))
    if constant(analyzer.simplify(indices[0] - start - loop.loop_var)) != 0:
        return None
    return start if analyzer.is_multiple(start, WORD_BYTES) else None
