"""Copies between tensors and tiles are made by the copy engines of a core where these can, outside of SIMT functions.

A copy stays with the threads where an engine cannot make it (`engine_copies.py`), where its box may leave the tensor,
and where threads keep something over it (`segments.py`). The caches through which threads reach tensors are none of the
engines': a tensor that an engine reads is written by nobody in the launch, and one that an engine writes is touched by
nothing but engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_ascend.passes.engine_copies import EngineCopy, engine_copy
from tile_ascend.passes.segments import Cuts, flat
from tile_core.ir import launch as launch_ir
from tile_core.ir import thread_groups, visit
from tile_core.ir.uses import Uses, uses
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.ops.threads import tells_threads_apart
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import Ranges

Copies = Mapping[S.Stmt, EngineCopy]


@dataclass(frozen=True)
class UseCopyEngines:
    """Leaves the number of copies by engines in the report as `engine_copies`."""

    name: ClassVar[str] = "use_copy_engines"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        count = 0

        def launch(loop: S.For, mutator: Any) -> S.Stmt:
            nonlocal count
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            opened = launch_ir.from_stmt(loop)
            copies = {} if _is_of_threads(opened) else _possible(func, loop)
            cuts = Cuts(opened.body, list(copies))
            while len(cuts.copies) < len(copies) or not _are_alone(copies, opened.body, func.body):
                copies = _alone({stmt: copies[stmt] for stmt in cuts.copies}, opened.body, func.body)
                cuts = Cuts(opened.body, list(copies))
            count += len(copies)
            return replace(opened, body=_Rewriter(copies, cuts).stmt(opened.body)).to_stmt() if copies else loop

        body = visit.mutate(func.body, (S.For, launch))
        context.report["engine_copies"] = count
        return func.with_body(body, func.span)


def _is_of_threads(launch: launch_ir.Launch) -> bool:
    """Whether a launch is more than the program of a block: of threads, of groups of them, or with views of tiles."""
    views = visit.collect(launch.body, S.DeclBuffer)
    return tells_threads_apart(launch) or bool(thread_groups.regions_in(launch.body)) or bool(views)


def _possible(func: tirx.PrimFunc, launch: S.For) -> Copies:
    """The copies that engines can make, and whose boxes certainly lie within their tensors."""
    ranges, found = Ranges(func), dict[S.Stmt, EngineCopy]()

    def loop(node: S.For, mutator: Any) -> S.Stmt:
        ranges.enter_loop(node)
        return mutator.default_mutate(node)

    def bind(node: S.Bind, mutator: Any) -> S.Stmt:
        ranges.bind(node)
        return mutator.default_mutate(node)

    def branch(node: S.IfThenElse, mutator: Any) -> S.Stmt:
        with ranges.assume(node.condition):
            mutator.mutate(node.then_case)
        if node.else_case is not None:
            with ranges.assume(E.Not(node.condition)):
                mutator.mutate(node.else_case)
        return node

    def evaluate(node: S.Evaluate, _mutator: Any) -> S.Stmt:
        copy = engine_copy(view(node, OPS)) if op_name(node) == "tile.copy" else None
        if copy is not None and all(map(ranges.proves, copy.inside())):
            found[node] = copy
        return node

    visit.mutate(launch, (S.For, loop), (S.Bind, bind), (S.IfThenElse, branch), (S.Evaluate, evaluate))
    return found


def _are_alone(copies: Copies, launch: S.Stmt, program: S.Stmt) -> bool:
    return len(_alone(copies, launch, program)) == len(copies)


def _alone(copies: Copies, launch: S.Stmt, program: S.Stmt) -> Copies:
    """The copies whose tensors are used otherwise in no way that engines would have to know of."""
    tensors = {copy.tensor.buffer: uses(copy.tensor.buffer, launch, program) for copy in copies.values()}
    stored = {
        tensor: sum(not copy.loads and copy.tensor.buffer.same_as(tensor) for copy in copies.values())
        for tensor in tensors
    }
    calls = (view(stmt, OPS) for stmt in visit.collect(launch, S.Evaluate) if op_name(stmt) in OPS)
    written = {region.source for call in calls for region in call.written}

    def is_alone(copy: EngineCopy) -> bool:
        tensor = copy.tensor.buffer
        found = tensors[tensor]
        if not copy.loads:
            return found == Uses(operands=stored[tensor])
        return tensor not in written and (found.stores, found.addresses, found.names) == (0, 0, 0)

    return {stmt: copy for stmt, copy in copies.items() if is_alone(copy)}


class _Rewriter:
    """Puts engines' copies in their places, and what threads keep where their function begins."""

    def __init__(self, copies: Copies, cuts: Cuts) -> None:
        self._copies, self._homes = copies, cuts.homes
        self._first: dict[S.Stmt, list[S.Stmt]] = {}

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        parts = flat([stmt])
        for part in parts:
            if isinstance(part, S.AllocBuffer) and part.buffer in self._homes:
                self._first.setdefault(self._homes[part.buffer].stmts[0], []).append(part)
        made: list[S.Stmt] = []
        for part in parts:
            if not (isinstance(part, S.AllocBuffer) and part.buffer in self._homes):
                made += [*self._first.get(part, ()), self._part(part)]
        return visit.sequence(made, stmt.span)

    def _part(self, stmt: Any) -> S.Stmt:
        if stmt in self._copies:
            return self._copies[stmt].to_stmt()
        if not any(child in self._copies for child in visit.statements(stmt)):
            return stmt
        if isinstance(stmt, S.For):
            return rebuild.loop(stmt, body=self.stmt(stmt.body))
        if isinstance(stmt, S.AttrStmt):
            return S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self.stmt(stmt.body), stmt.span)
        otherwise = None if stmt.else_case is None else self.stmt(stmt.else_case)
        return S.IfThenElse(stmt.condition, self.stmt(stmt.then_case), otherwise, stmt.span)
