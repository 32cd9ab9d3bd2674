"""Refuse programs that have no meaning, or none on this target, before anything is lowered.

Every check here is about the program as written, so each error carries the author's line. What can only be known at
run time is guarded by `legalize_bounds` instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import (
    HostAccessError,
    IndexOutOfRangeError,
    LoopControlError,
    ParallelNestError,
    ParallelStorageError,
    RegionOutOfRangeError,
    SharedMemoryLimitError,
    ThreadIndexError,
    ThreadLimitError,
)
from tile_core.ir import launch, regions, visit
from tile_core.ir.marks import NUM_STAGES, PARALLEL
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.ops import OPS
from tile_core.ops.base import PREFIX, op_name
from tile_core.ops.threads import NEEDS_THREADS, SHUFFLES, called, is_instruction
from tile_core.passes.base import PassContext
from tile_core.passes.check_reducers import check_reducers
from tile_core.passes.check_tile_regions import check_tile_regions


@dataclass(frozen=True)
class CheckSemantics:
    """See the module's docstring.

    Raises:
        IndexOutOfRangeError, RegionOutOfRangeError, ThreadIndexError, ParallelNestError, ParallelStorageError,
        LoopControlError, SharedMemoryLimitError, ThreadLimitError, HostAccessError, OpArgumentError
    """

    name: ClassVar[str] = "check_semantics"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """Check `func`; it is returned as it is."""
        _Checker(context).check(func.body, _Place())
        check_reducers(func.body)
        check_tile_regions(func.body)
        return func


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: its launch, and the loops around it that run their iterations at the same time."""

    launch: launch.Launch | None = None
    parallel: tuple[S.For, ...] = ()
    simultaneous: bool = False
    span: Any = None

    def at(self, stmt: S.Stmt) -> _Place:
        return self if stmt.span is None else replace(self, span=stmt.span)


class _Checker:
    def __init__(self, context: PassContext) -> None:
        self._capabilities = context.capabilities

    def check(self, stmt: S.Stmt, place: _Place) -> None:
        place = place.at(stmt)
        if launch.is_launch(stmt):
            nest = launch.from_stmt(stmt)
            self._check_threads(nest)
            self._check_shared(nest)
            self.check(nest.body, replace(place, launch=nest))
            return
        for expr in _expressions(stmt):
            self._check_expression(expr, place)
        if isinstance(stmt, S.BufferStore):
            self._check_access(stmt.buffer, list(stmt.indices), place)
        if isinstance(stmt, S.Break | S.Continue) and place.simultaneous:
            word = "break" if isinstance(stmt, S.Break) else "continue"
            raise LoopControlError(
                f"`{word}` stands in a loop whose iterations run at the same time",
                remedy="guard the work with `if`, or use T.serial",
                span=from_tvm(place.span),
            )
        if place.parallel:
            self._check_in_parallel(stmt, place)
        for child in visit.children(stmt):
            self.check(child, self._inside(stmt, child, place))

    def _inside(self, stmt: S.Stmt, child: S.Stmt, place: _Place) -> _Place:
        if not isinstance(stmt, S.For | S.While):
            return place
        if isinstance(stmt, S.While) or stmt.kind in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            return replace(place, simultaneous=False)
        if stmt.kind == S.ForKind.PARALLEL:
            return replace(place, parallel=(*place.parallel, stmt), simultaneous=True)
        return replace(place, simultaneous=True)

    def _check_expression(self, expr: ir.Expr, place: _Place) -> None:
        visit.walk(
            expr,
            (ir.TensorLoad, lambda load: self._check_access(load.source, list(load.indices), place)),
            (ir.TensorRegion, lambda region: self._check_region(region, place)),
            (ir.Var, lambda var: self._check_var(var, place)),
            (ir.Call, lambda call: self._check_exchange(call, place)),
        )

    def _check_exchange(self, call: ir.Call, place: _Place) -> None:
        name = called(call)
        if name not in NEEDS_THREADS and not is_instruction(call):
            return
        if not self._capabilities.threads:
            does = "is an instruction of threads" if is_instruction(call) else "exchanges values between threads"
            raise ThreadIndexError(
                f"{name.removeprefix(PREFIX)} {does}, but blocks have none on this target",
                remedy="write the work with T.Parallel and tile operations",
                span=from_tvm(place.span),
            )
        if place.parallel:
            names = ", ".join(loop.loop_var.name for loop in place.parallel)
            raise ParallelNestError(
                f"{name.removeprefix(PREFIX)} stands inside of T.Parallel, over {names}: iterations are no threads",
                remedy="address the work by T.get_thread_binding(), or move the exchange out of the loop",
                span=from_tvm(place.span),
            )
        if name in SHUFFLES:
            self._check_width(call, place)

    def _check_width(self, call: ir.Call, place: _Place) -> None:
        width, lanes = constant(call.args[2]), self._capabilities.warp_size
        if width is None or width > lanes:
            raise OpArgumentError(
                f"{called(call).removeprefix(PREFIX)}: width={width}, but a warp of this target has {lanes} lanes",
                remedy=f"use a width of at most {lanes}",
                span=from_tvm(place.span),
            )

    def _check_var(self, var: ir.Var, place: _Place) -> None:
        if self._capabilities.threads or place.launch is None:
            return
        for axis, thread in zip(launch.AXES, place.launch.thread_vars, strict=True):
            if var.same_as(thread):
                raise ThreadIndexError(
                    f"the kernel reads the thread index of axis {axis}, but blocks have no threads on this target",
                    remedy="write the work with T.Parallel and tile operations",
                    span=from_tvm(place.span),
                )

    def _check_access(self, buffer: ir.Var, indices: list[ir.Expr], place: _Place) -> None:
        self._check_place(buffer, place)
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            at, size = constant(index), constant(extent)
            if at is not None and (at < 0 or (size is not None and at >= size)):
                raise IndexOutOfRangeError(
                    f"index {at} is out of range for axis {axis} of {buffer.name}, whose extent is {extent}",
                    remedy=f"use an index from 0 to {size - 1}" if size else "use an index inside of the buffer",
                    span=from_tvm(place.span),
                )
        if place.parallel and regions.scope(buffer) in (regions.LOCAL, regions.FRAGMENT):
            self._check_parallel_storage(buffer, indices, place)

    def _check_parallel_storage(self, buffer: ir.Var, indices: list[ir.Expr], place: _Place) -> None:
        names = {name for index in indices for name in visit.collect(index, ir.Var)}
        walked = [loop for loop in place.parallel if loop.loop_var in names]
        if not walked:
            return
        if regions.scope(buffer) == regions.LOCAL:
            raise ParallelStorageError(
                f"{buffer.name} is local memory of one thread, but the parallel variable {walked[0].loop_var.name} "
                "indexes it",
                remedy="allocate it with T.alloc_fragment, which is spread over the threads",
                span=from_tvm(place.span),
            )
        symbolic = [loop for loop in walked if constant(loop.extent) is None]
        if symbolic and self._capabilities.threads:
            raise ParallelStorageError(
                f"the fragment {buffer.name} is indexed by {symbolic[0].loop_var.name}, whose extent "
                f"{symbolic[0].extent} is not a constant",
                remedy="loop over the tile's constant extent and guard the work with `if`",
                span=from_tvm(place.span),
            )

    def _check_region(self, region: ir.TensorRegion, place: _Place) -> None:
        buffer = region.source
        self._check_place(buffer, place)
        for axis, (part, extent) in enumerate(zip(region.region, buffer.shape, strict=True)):
            start, length, size = constant(part.min), constant(part.extent), constant(extent)
            beyond = size is not None and start is not None and start >= size and length != 0
            if (start is not None and start < 0) or beyond:
                raise RegionOutOfRangeError(
                    f"a region of {buffer.name} starts at {start} on axis {axis}, whose extent is {extent}",
                    remedy="start the region inside of the buffer",
                    span=from_tvm(place.span),
                )

    def _check_place(self, buffer: ir.Var, place: _Place) -> None:
        if place.launch is None:
            raise HostAccessError(
                f"{buffer.name} is used outside of every T.Kernel",
                remedy="move the statement into the `with T.Kernel(...)` block",
                span=from_tvm(place.span),
            )

    def _check_in_parallel(self, stmt: S.Stmt, place: _Place) -> None:
        outer = place.parallel[-1]
        problem = ""
        if name := _tile_operation(stmt):
            problem = f"the tile operation {name.removeprefix(PREFIX)}"
        elif isinstance(stmt, S.For) and NUM_STAGES in stmt.annotations:
            problem = "T.Pipelined"
        elif _begins_nest(stmt) or (_is_parallel(stmt) and not stmt.same_as(outer.body)):
            problem = "a T.Parallel loop that is not perfectly nested"
        elif isinstance(stmt, S.AllocBuffer) and regions.scope(stmt.buffer) != regions.VAR:
            problem = f"the allocation of {stmt.buffer.name}"
        if problem:
            names = ", ".join(loop.loop_var.name for loop in place.parallel)
            raise ParallelNestError(
                f"{problem} stands inside of T.Parallel, over {names}",
                remedy="move it out of the loop, or make the outer loop T.serial",
                span=from_tvm(place.span),
            )

    def _check_threads(self, nest: launch.Launch) -> None:
        count, limit = math.prod(nest.threads), self._capabilities.max_threads
        if self._capabilities.threads and count > limit:
            shape = ", ".join(map(str, nest.threads))
            raise ThreadLimitError(
                f"a block of ({shape}) has {count} threads, the limit is {limit}",
                remedy="launch fewer threads; T.Parallel spreads the work over them",
                span=from_tvm(nest.span),
            )

    def _check_shared(self, nest: launch.Launch) -> None:
        limit = self._capabilities.shared_bytes
        sizes = {
            stmt.buffer: _bytes(stmt.buffer)
            for stmt in visit.statements(nest.body)
            if isinstance(stmt, S.AllocBuffer) and regions.scope(stmt.buffer) in regions.SHARED
        }
        total = sum(sizes.values())
        if limit is None or total <= limit:
            return
        named = ", ".join(f"{buffer.name} {size}" for buffer, size in sorted(sizes.items(), key=lambda item: -item[1]))
        raise SharedMemoryLimitError(
            f"the kernel allocates {total} bytes of shared memory, the limit is {limit}; in bytes: {named}",
            remedy="use smaller tiles, a narrower dtype or fewer pipeline stages",
            span=from_tvm(nest.span),
        )


def _is_parallel(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.For) and stmt.kind == S.ForKind.PARALLEL


def _begins_nest(stmt: S.Stmt) -> bool:
    """Whether a loop opens a parallel nest of its own; those that form a box with the loops around them do not."""
    return _is_parallel(stmt) and PARALLEL in stmt.annotations


def _expressions(stmt: S.Stmt) -> Iterator[ir.Expr]:
    """The expressions that a statement itself evaluates."""
    if isinstance(stmt, S.For):
        yield from (stmt.min, stmt.extent)
    elif isinstance(stmt, S.IfThenElse | S.While | S.AssertStmt):
        yield stmt.condition
    elif isinstance(stmt, S.Bind | S.Evaluate | S.Return):
        yield stmt.value
    elif isinstance(stmt, S.BufferStore):
        yield from (*stmt.indices, stmt.value)


def _tile_operation(stmt: S.Stmt) -> str | None:
    """The name of the operation on whole tiles that a statement is; printing a scalar is none."""
    name = op_name(stmt)
    op = OPS.get(name) if name else None
    return name if op and any(operand.access != "value" for operand in op.operands) else None


def _bytes(buffer: ir.Var) -> int:
    extents = [constant(extent) for extent in buffer.shape]
    if None in extents:
        return 0
    return math.prod(extent or 0 for extent in extents) * max(1, buffer.dtype.bits * buffer.dtype.lanes // 8)
