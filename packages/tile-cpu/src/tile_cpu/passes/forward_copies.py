"""Multiply what a tile was copied from, where the tile is a copy for a multiplication and nothing else.

    copy(V[h, t * 128], v)                    copy(K[h, t * 128], k)
    copy(s, p)                                …
    gemm(p, v, o)                             gemm(s, V[h, t * 128:…], o)

`tile.gemm` brings B into its own form wherever it lies, so a copy of it is one pass over memory more; and what is read
from a tensor can be brought into that form once for all blocks (`share_operands`). `stream_operands` does the same to
whole loops and makes longer steps of them; this pass is for the loops that do more than multiply.

A tensor takes a tile's place only as B, which is read with the zeros of a copy beyond its edges, only if the kernel
never writes it, and only if it writes no tensor at all before the last of these multiplications: it may be the same
one. A tile takes the place of its copy if nothing touches it before the last multiplication that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import regions, visit
from tile_core.ir.regions import is_whole
from tile_core.ir.uses import Uses, uses
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.copy import pads_with_zeros
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import reads_memory
from tile_cpu.ops.matrices import matrix_axes
from tile_cpu.passes.stream_operands import uses_of

_SIDES = ("a", "b")
_COPIED = {"tile.copy": ("src",)}
_READ = {**_COPIED, "tile.gemm": _SIDES}
"""What operations only read."""


@dataclass(frozen=True)
class ForwardCopies:
    """See the module's docstring. Runs after `stream_operands`."""

    name: ClassVar[str] = "forward_copies"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        counts = uses_of(func)
        tensors = _only_read(func)
        free: set[ir.Var] = set()

        def steps(stmt: S.SeqStmt, mutator: Any) -> S.Stmt:
            stmt = mutator.default_mutate(stmt)
            return visit.sequence(_forwarded(list(stmt.seq), counts, tensors, free), stmt.span)

        func = visit.mutate(func, (S.SeqStmt, steps))
        allocation = (S.AllocBuffer, lambda stmt, mutator: visit.sequence([]) if stmt.buffer in free else stmt)
        return visit.mutate(func, allocation) if free else func


def _only_read(func: tirx.PrimFunc) -> frozenset[ir.Var]:
    """The tensors that the function loads from, or copies from, and does nothing else with."""
    return frozenset(param for param in func.params if is_buffer_var(param) and _reads_only(func.body, param, _COPIED))


def _reads_only(root: S.Stmt, tensor: ir.Var, read: Mapping[str, Sequence[str]]) -> bool:
    """Whether `root` does nothing with `tensor` but load from it and give it to the operands in `read`."""
    count = sum(
        view(part, OPS).region(operand).source.same_as(tensor)
        for part in visit.statements(root)
        for operand in read.get(op_name(part) or "", ())
    )
    return replace(uses(tensor, root), loads=0) == Uses(operands=count)


def _forwarded(
    steps: list[S.Stmt], counts: dict[ir.Var, int], tensors: frozenset[ir.Var], free: set[ir.Var]
) -> list[S.Stmt]:
    """`steps` without the copies whose sources are multiplied instead; their tiles are added to `free`."""
    at = 0
    while at < len(steps):
        rest = _without_copy(steps[at], steps[at + 1 :], counts, tensors)
        if rest is None:
            at += 1
            continue
        free.add(view(steps[at], OPS).region("dst").source)
        steps[at:] = rest
    return steps


def _without_copy(
    step: S.Stmt, rest: list[S.Stmt], counts: dict[ir.Var, int], tensors: frozenset[ir.Var]
) -> list[S.Stmt] | None:
    """What follows `step` with its source multiplied; `None` where `step` is no such copy."""
    if op_name(step) != "tile.copy":
        return None
    copy = view(step, OPS)
    source, tile = Tile(copy.region("src")), Tile(copy.region("dst"))
    if (
        not pads_with_zeros(copy)
        or not _same_matrix(source, tile)
        or any(reads_memory(start) for start in source.starts)
    ):
        return None
    readers = [at for at, stmt in enumerate(rest) if _sides(stmt, tile.buffer)]
    if not readers or counts[tile.buffer] != 1 + sum(len(_sides(rest[at], tile.buffer)) for at in readers):
        return None
    until = rest[: readers[-1] + 1]
    if source.scope == regions.GLOBAL:
        if source.buffer not in tensors or any("a" in _sides(rest[at], tile.buffer) for at in readers):
            return None
        if any(map(_writes_tensors, until)):
            return None
    elif any(source.buffer in visit.collect(stmt, ir.Var) for stmt in until):
        return None
    return [_reading(stmt, tile.buffer, source.region) if at in readers else stmt for at, stmt in enumerate(rest)]


def _writes_tensors(stmt: S.Stmt) -> bool:
    """Whether `stmt` may write a tensor, which may overlap with the one that is read: arguments of a call may."""
    named = {var for var in visit.collect(stmt, ir.Var) if is_buffer_var(var)}
    return any(regions.scope(var) == regions.GLOBAL and not _reads_only(stmt, var, _READ) for var in named)


def _same_matrix(source: Tile, tile: Tile) -> bool:
    """Whether `tile` becomes all of the matrix `source`, in the same dtype."""
    axes = matrix_axes(source)
    if axes is None or tile.rank != 2 or not is_whole(tile.region):
        return False
    return [source.shape[axis] for axis in axes] == tile.shape and source.dtype is tile.dtype


def _sides(stmt: S.Stmt, tile: ir.Var) -> list[str]:
    """As which operands a multiplication reads all of `tile`."""
    if op_name(stmt) != "tile.gemm":
        return []
    gemm = view(stmt, OPS)
    return [side for side in _SIDES if gemm.region(side).source.same_as(tile) and is_whole(gemm.region(side))]


def _reading(stmt: S.Stmt, tile: ir.Var, source: ir.TensorRegion) -> S.Stmt:
    gemm = view(stmt, OPS)
    return replace(gemm, args={**gemm.args, **dict.fromkeys(_sides(stmt, tile), source)}).to_stmt()
