"""Tile ops: their operands as numpy views, and the op's own reference meaning on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.interpreter.barriers import BARRIERS, compile_barrier
from tile_core.interpreter.collective import together
from tile_core.interpreter.lanes import one_by_one
from tile_core.interpreter.phases import compile_asynchronous, is_asynchronous
from tile_core.interpreter.regions import RegionView, compile_region
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.state import State
from tile_core.interpreter.values import no_meaning
from tile_core.ir.regions import LOCAL, VAR
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, Operand, op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.copy import axes
from tile_core.ops.print import PRINT

COPIES = ("tile.copy", "tile.async_copy")


def compile_tile_op(stmt: S.Evaluate, scope: Scope) -> Executor:
    """The function that carries out a tile op.

    Inside of `T.Parallel` each iteration carries it out for itself. Where threads are told apart they carry it out
    together, except for printing values and their own memory, which each thread does.

    Raises:
        NoReferenceMeaningError: the op has no reference meaning.
    """
    if op_name(stmt) not in OPS:
        raise no_meaning(f"the tile operation {op_name(stmt)}", scope.span)
    call = view(stmt, OPS)
    if call.op in BARRIERS:
        return compile_barrier(call, scope)
    if is_asynchronous(call):
        return compile_asynchronous(call, scope, _compile_call)
    return _compile_call(call, scope)


def _compile_call(call: OpCall, scope: Scope) -> Executor:
    if scope.parallel or (scope.threads and _is_for_each(call)):
        return one_by_one(_compile(call, replace(scope, vector=False, parallel=False, threads=False)))
    if scope.threads:
        return together(
            _compile(call, replace(scope, vector=False, threads=False, collective=True)), call.op.name, scope
        )
    return _compile(call, scope)


def _is_for_each(call: OpCall) -> bool:
    """Whether each thread carries out an op for itself: one on values, or one that prints a thread's own memory."""
    if call.op is PRINT:
        return Tile(call.region("src")).scope in (LOCAL, VAR)
    return all(operand.access == "value" for operand in call.op.operands)


def _compile(call: OpCall, scope: Scope) -> Executor:
    if any(Tile(region).dtype.is_vector for region in call.args.values() if isinstance(region, ir.TensorRegion)):
        raise no_meaning(f"{call.op.name} on a tile of vectors", scope.span)
    regions = {
        operand: compile_region(call.args[operand.name], scope)
        for operand in call.op.operands
        if operand.access != "value"
    }
    values = {
        operand.name: scope.expr(call.args[operand.name]) for operand in call.op.operands if operand.access == "value"
    }

    unpadded = _unpadded_axes(call)

    def run(state: State) -> None:
        views = {operand: region(state) for operand, region in regions.items()}
        arguments: dict[str, Any] = {name: value(state) for name, value in values.items()}
        if scope.options.check_uninitialized:
            _check_reads(call, views, arguments, state, scope)
        arguments.update((operand.name, found.values) for operand, found in views.items())
        call.op.reference(call, arguments)
        for operand, found in views.items():
            if "w" in operand.access:
                found.write_back()
                found.mark_written(_written_extents(unpadded, arguments))

    return run


def _check_reads(
    call: OpCall, views: dict[Operand, RegionView], values: dict[str, Any], state: State, scope: Scope
) -> None:
    overwrites = bool(values.get("clear_accum", False)) or bool(call.attrs.get("clear", call.op.name == "tile.reduce"))
    for operand, found in views.items():
        if operand.access == "r" or (operand.access == "rw" and not overwrites):
            found.require_written(state, scope.site(call.region(operand.name).source))


def _unpadded_axes(call: OpCall) -> list[tuple[int, int | None]]:
    """Axes of a copy's destination of which only as much is written as the source has, with the source's axis."""
    if call.op.name not in COPIES:
        return []
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    return [
        (chosen.dst, chosen.src)
        for chosen, padded in zip(axes(src, dst), axes(src, dst, to_tile=True), strict=True)
        if chosen.dst is not None and not chosen.extent.same_as(padded.extent)
    ]


def _written_extents(unpadded: list[tuple[int, int | None]], arguments: dict[str, Any]) -> tuple[int, ...] | None:
    if not unpadded:
        return None
    extents, source = list(arguments["dst"].shape), arguments["src"].shape
    for dst, src in unpadded:
        extents[dst] = min(extents[dst], 1 if src is None else source[src])
    return tuple(extents)
