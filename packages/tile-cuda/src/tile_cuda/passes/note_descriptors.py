"""Instructions that read shared memory through a descriptor say which tiles those are.

A descriptor that the author made is a number in a variable of a thread, so what reads through it names no tile, and a
barrier that it needs would not be placed. Here every use of such a variable gets the tiles that the launch has made its
descriptor of, all of them: which one it is at a time is not known. Those tiles begin where a swizzle's pattern begins,
and share their bytes with no other, since what reads them may run on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.ops import tile_op
from tile_core.ir.views import view_roots
from tile_core.ops.threads import called, is_instruction
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import ACCESS
from tile_core.passes.plan_shared_memory import ALIGN_TO, OWN_PLACE
from tile_core.passes.swizzle_tiles import ALIGNMENT
from tile_core.passes.thread_scope import int32
from tile_core.printer.language import ExprHandler, Node
from tile_core.printer.precedence import Code
from tile_core.printer.printer import Printer

READS = "cuda.reads_tiles"
"""A descriptor, and the addresses of the tiles that it may be of."""
_MADE = ("cuda.smem_descriptor", "cuda.tcgen05_descriptor")


@dataclass(frozen=True)
class NoteDescriptors:
    """See the module."""

    name: ClassVar[str] = "note_descriptors"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def note(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            tiles = _tiles(launch.body)
            read = {tile for found in tiles.values() for tile in found} | _named_in_place(launch.body)
            if not read:
                return loop
            return replace(launch, body=placed_apart(_noted(launch.body, tiles), read)).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, note)), func.span)


def placed_apart(body: S.Stmt, tiles: Collection[ir.Var]) -> S.Stmt:
    """The body with places of their own for `tiles`, which instructions in flight read."""
    roots = view_roots(body)
    wanted = {roots.get(tile, tile) for tile in tiles}

    def allocate(alloc: S.AllocBuffer, _mutator: Any) -> S.Stmt:
        if alloc.buffer not in wanted:
            return alloc
        return S.AllocBuffer(alloc.buffer, {**alloc.annotations, OWN_PLACE: 1, ALIGN_TO: ALIGNMENT}, span=alloc.span)

    return visit.mutate(body, (S.AllocBuffer, allocate))


def _tiles(body: S.Stmt) -> dict[ir.Var, list[ir.Var]]:
    """Variables that hold descriptors, and the tiles that those are of."""
    found: dict[ir.Var, list[ir.Var]] = {}
    for store in visit.collect(body, S.BufferStore):
        for call in visit.collect(store.value, ir.Call):
            if called(call) in _MADE:
                tiles = found.setdefault(store.buffer, [])
                tiles += [load.source for load in visit.collect(call.args[0], ir.TensorLoad)]
    return found


def _named_in_place(body: S.Stmt) -> set[ir.Var]:
    """The tiles of descriptors that are made where an instruction uses them."""
    made = [call for stmt in visit.collect(body, S.Evaluate) for call in visit.collect(stmt.value, ir.Call)]
    return {load.source for call in made if called(call) in _MADE for load in visit.collect(call, ir.TensorLoad)}


def _noted(body: S.Stmt, tiles: Mapping[ir.Var, list[ir.Var]]) -> S.Stmt:
    def load(node: ir.TensorLoad, _mutator: Any) -> ir.Expr:
        if node.source not in tiles:
            return node
        zeros = (tirx.BufferLoad(tile, [int32(0)] * len(tile.shape)) for tile in dict.fromkeys(tiles[node.source]))
        arguments = [node, *map(tirx.address_of, zeros)]
        return ir.Call(tile_op(READS, pure=True), arguments, attrs={ACCESS: "r"}, ret_ty=node.ty)

    def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        return visit.mutate(stmt, (ir.TensorLoad, load)) if is_instruction(stmt) else stmt

    return visit.mutate(body, (S.Evaluate, evaluate))


def _print(printer: Printer, node: Node) -> Code:
    return printer.expr(node.args[0])


CALLS: Mapping[str, ExprHandler] = {READS: _print, "cuda.tensor_memory_at": _print}
