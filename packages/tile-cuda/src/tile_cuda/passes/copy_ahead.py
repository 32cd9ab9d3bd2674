"""Copies of pipelined loops ahead of time by the threads that multiply (`cp.async`, sm_80 and later).

A loop of `T.Pipelined` with n stages gets tiles of n stages. Its prologue starts the copies of n - 1 iterations; an
iteration waits for its own copies, meets the other threads, starts those of the iteration n - 1 ahead, into the stage
that all are done with, and computes. Each iteration commits one group, also an empty one, so that the count to wait for
is always n - 2 and nothing is in flight behind the loop.

Where the tensor memory accelerator makes the copies (`specialize_warps`), this pass leaves a launch alone; what is left
there are rows that begin at odd places, and blocks of other sizes. The host launches the program as it was where a
tensor is not aligned as the units are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.marks import NUM_STAGES, ORDER, SAFE_VALUE, STAGE
from tile_core.ir.renew import renewed
from tile_core.ir.spans import from_tvm
from tile_core.ir.views import view_roots
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.ops.threads import tells_threads_apart
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import MatrixUnits
from tile_core.passes.nests import FOREIGN
from tile_core.passes.plan_shared_memory import STAGES
from tile_core.passes.swizzle_tiles import TILES
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.cp_async import cp_async_commit, cp_async_wait
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.tensor_map import tensor_map_fits
from tile_cuda.passes.lower_asynchrony import is_scheduled
from tile_cuda.passes.matrix_tiles import matrix_tiles
from tile_cuda.passes.pipelines import Pipeline, find_pipelines, is_plain, statements_of, written
from tile_cuda.passes.ring import at_stage, stages_of
from tile_cuda.passes.tensor_copies import address
from tile_cuda.passes.thread_copies import ThreadCopies, resolved, unknown_strides, width_of

OPTION = "tile.copy_ahead"
BULK, SINGLE = "cp.async.bulk.tensor", "cp.async"
WHOLE_UNIT = 16
SCHEDULE = (ORDER, STAGE)


@dataclass(frozen=True)
class CopyAhead:
    """`tile.copy_ahead` (default true) switches it off."""

    name: ClassVar[str] = "copy_ahead"
    options: ClassVar[tuple[str, ...]] = (OPTION,)
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report gets `copied_ahead`, a line for each loop."""
        context.report.setdefault("copied_ahead", [])
        copies = context.capabilities.fact("async_copy", [])
        if not context.options.get(OPTION, True) or SINGLE not in copies:
            return func
        padded = {attr.node for attr in visit.collect(func.body, S.AttrStmt) if attr.attr_key == SAFE_VALUE}
        parameters = frozenset(func.params) - padded
        roots = view_roots(func.body)

        def version(branch: S.IfThenElse, mutator: Any) -> S.Stmt:
            """Of a launch with two versions, the one for tensors that the accelerator does not take."""
            if not _is_alignment_test(branch.condition):
                return mutator.default_mutate(branch)
            return S.IfThenElse(branch.condition, branch.then_case, mutator.mutate(branch.else_case), branch.span)

        def launched(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            pipeliner = _Pipeliner(launch, parameters - written(launch, roots), self.units, context)
            found = pipeliner.result(odd=launch.is_spare)
            return loop if found is None else found

        return func.with_body(visit.mutate(func.body, (S.IfThenElse, version), (S.For, launched)), func.span)


def _is_alignment_test(condition: ir.Expr) -> bool:
    calls = visit.collect(condition, ir.Call)
    return any(isinstance(call.op, ir.Op) and str(call.op.name) == "cuda.tensor_map_fits" for call in calls)


@dataclass(frozen=True)
class _Loop:
    """A pipelined loop and how those of its tiles are filled that are filled ahead."""

    pipeline: Pipeline
    copies: Mapping[ir.Var, ThreadCopies]

    @property
    def stages(self) -> dict[ir.Var, ir.Var]:
        """Those tiles with stages."""
        return {tile: staged for tile, staged in stages_of(self.pipeline).items() if tile in self.copies}

    @property
    def text(self) -> str:
        """For the report."""
        place = from_tvm(self.pipeline.loop.span)
        where = "" if place is None else f"line {place.line}: "
        return f"{where}{self.pipeline.stages} stages"


class _Pipeliner:
    def __init__(
        self, launch: launch_ir.Launch, parameters: frozenset[ir.Var], units: MatrixUnits, context: PassContext
    ) -> None:
        self._original, self._units, self._context = launch, units, context
        self._parameters = parameters

    def result(self, *, odd: bool) -> S.Stmt | None:
        """The pipelined launch beside the original; `odd`: only for rows that begin at odd places."""
        body = self._original.body
        if is_scheduled(body) or not is_plain(self._original) or tells_threads_apart(self._original):
            return None
        loops = self._loops(self._original)
        if not loops or (odd and all(copies.width == WHOLE_UNIT for loop in loops for copies in loop.copies.values())):
            return None
        launch = launch_ir.from_stmt(renewed(self._original.to_stmt()))
        loops = self._loops(launch)
        rings = [loop.stages for loop in loops]
        self._context.report["copied_ahead"] += [loop.text for loop in loops]
        for loop, ring in zip(loops, rings, strict=True):
            for target, copies in loop.copies.items():
                if copies.copy.tile is not None:
                    self._context.state.setdefault(TILES, {})[ring[target]] = copies.copy.tile
        gone = {target for loop in loops for target in loop.copies}

        def pipelined(node: S.For, mutator: Any) -> S.Stmt:
            for loop, ring in zip(loops, rings, strict=True):
                if node.same_as(loop.pipeline.loop):
                    return self._pipelined(loop, ring)
            return mutator.default_mutate(node)

        def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
            return visit.sequence([]) if node.buffer in gone else node

        changed = visit.mutate(launch.body, (S.For, pipelined), (S.AllocBuffer, allocate))
        tiles = [
            S.AllocBuffer(tile, {STAGES: loop.pipeline.stages})
            for loop, ring in zip(loops, rings, strict=True)
            for tile in ring.values()
        ]
        fast = replace(launch, body=visit.sequence([*tiles, changed], launch.span)).to_stmt()
        used = [copies.copy for loop in loops for copies in loop.copies.values()]
        tests = [tensor_map_fits(address(copy.tensor), *unknown_strides(copy)) for copy in used]
        spare = replace(self._original, is_spare=True)
        return S.IfThenElse(reduce(E.And, tests), fast, spare.to_stmt(), launch.span)

    def _loops(self, launch: launch_ir.Launch) -> list[_Loop]:
        """The loops that are pipelined. Whether their stages fit is known when every tile has its place."""
        tiles = matrix_tiles(launch, self._units, self._context.capabilities)
        found = []
        for pipeline in find_pipelines(launch, self._parameters, tiles):
            loop = _Loop(pipeline, self._copies(pipeline, launch))
            if pipeline.stages > 1 and loop.copies and not any(key in pipeline.loop.annotations for key in SCHEDULE):
                found.append(loop)
        return found

    def _copies(self, pipeline: Pipeline, launch: launch_ir.Launch) -> dict[ir.Var, ThreadCopies]:
        """How tiles are filled ahead: those whose places are known then, and begin at units of their rows."""
        binds = [stmt for stmt in statements_of(pipeline.loop) if isinstance(stmt, S.Bind)]
        names = {bind.var: bind.value for bind in binds}
        inner = {loop.loop_var for loop in visit.collect(pipeline.loop.body, S.For)} | set(names)
        found = {}
        for copy in pipeline.copies:
            starts = resolved(copy, names)
            width = width_of(copy, starts)
            if width is not None and all(self._is_known_ahead(start, inner, launch) for start in starts):
                found[copy.target] = ThreadCopies(copy, tuple(starts), width, launch)
        return found

    def _is_known_ahead(self, start: ir.Expr, inner: set[ir.Var], launch: launch_ir.Launch) -> bool:
        """Whether an index is the same when it is computed iterations earlier, and in every thread."""
        if any(load.source not in self._parameters for load in visit.collect(start, ir.TensorLoad)):
            return False
        if visit.collect(start, ir.Call):
            return False
        return not any(var in inner or var in launch.thread_vars for var in visit.collect(start, ir.Var))

    def _pipelined(self, loop: _Loop, ring: Mapping[ir.Var, ir.Var]) -> S.Stmt:
        node, stages = loop.pipeline.loop, loop.pipeline.stages
        var = node.loop_var
        count = var - node.min
        count = count if str(count.ty.dtype) == "int32" else count.astype("int32")
        ahead = E.IntImm(var.ty, stages - 1)
        stage, later = tirx.Var("stage", "int32"), tirx.Var("later", "int32")
        following = self._filled(loop, ring, later, var + ahead)
        started = S.IfThenElse(E.LT(count + (stages - 1), _int32(node.extent)), following, None)
        head = [
            _own(S.Evaluate(cp_async_wait(stages - 2))),
            *([_own(S.Evaluate(fence_async()))] if self._crosses_proxies else []),
            barrier(node.span),
            S.Bind(stage, tirx.floormod(count, int32(stages))),
            S.Bind(later, tirx.floormod(count + (stages - 1), int32(stages))),
            _own(visit.sequence([started, S.Evaluate(cp_async_commit())])),
        ]
        rest = [at_stage(stmt, ring, stage) for stmt in statements_of(node) if not _is_copy_of(stmt, loop)]
        annotations = {key: value for key, value in node.annotations.items() if key != NUM_STAGES}
        body = rebuild.loop(node, body=visit.sequence([*head, *rest], node.body.span), annotations=annotations)
        return visit.sequence([barrier(node.span), *self._prologue(loop, ring), body], node.span)

    @property
    def _crosses_proxies(self) -> bool:
        """Whether instructions that read shared memory another way may follow: products of warpgroups."""
        return BULK in self._context.capabilities.fact("async_copy", [])

    def _prologue(self, loop: _Loop, ring: Mapping[ir.Var, ir.Var]) -> list[S.Stmt]:
        node = loop.pipeline.loop
        found = []
        for stage in range(loop.pipeline.stages - 1):
            filled = self._filled(loop, ring, int32(stage), node.min + stage)
            started = S.IfThenElse(E.GT(node.extent, E.IntImm(node.extent.ty, stage)), filled, None)
            found.append(_own(visit.sequence([started, S.Evaluate(cp_async_commit())])))
        return found

    def _filled(self, loop: _Loop, ring: Mapping[ir.Var, ir.Var], stage: ir.Expr, at: ir.Expr) -> S.Stmt:
        """The copies of the iteration `at`."""
        values = {loop.pipeline.loop.loop_var: at}
        copies = [copies.statements(ring[target], stage, values) for target, copies in loop.copies.items()]
        return renewed(visit.sequence(copies))


def _is_copy_of(stmt: S.Stmt, loop: _Loop) -> bool:
    """Whether a statement is one of the copies that are made ahead: nothing else writes their tiles."""
    return op_name(stmt) == "tile.copy" and view(stmt, OPS).region("dst").source in loop.copies


def _own(stmt: S.Stmt) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), stmt)


def _int32(value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == "int32" else value.astype("int32")
