"""Launch one kernel for tensors that all begin at an aligned address, another one for any.

Whether a tensor begins at a multiple of a vector's size is known when the program is called. Asked in the kernel, it
makes a branch of every vector access, and a device compiler moves no load before a branch: the loads of several tensors
wait for each other. So the host asks, and the kernel that nearly every call gets has plain vectors only.

Runs on kernels that are otherwise finished, so nothing else is done twice. A launch that the host makes under a
condition is left alone: whoever made the condition has chosen the versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.alignment import asked_of
from tile_core.ir.renew import renewed
from tile_core.passes.base import PassContext
from tile_core.passes.thread_scope import conjunction
from tile_core.passes.vector_units import ALIGNED_MOVE

REPORTED = "aligned_launches"
"""The fact of the report that counts the launches with two versions."""


@dataclass(frozen=True)
class SpecializeAlignment:
    """Leaves the number of launches with two versions in the report as `aligned_launches`."""

    name: ClassVar[str] = "specialize_alignment"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        parameters = frozenset(func.params)
        context.report.setdefault(REPORTED, 0)

        def versions(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            flags = _flags(loop, parameters)
            if not flags:
                return loop
            context.report[REPORTED] += 1
            wanted = conjunction([flag.value for flag in flags])
            spare = replace(launch_ir.from_stmt(loop), is_spare=True).to_stmt()
            return S.IfThenElse(wanted, _aligned(loop, flags), spare, loop.span)

        kept = (S.IfThenElse, lambda branch, _mutator: branch)
        return func.with_body(visit.mutate(func.body, (S.For, versions), kept), func.span)


def _flags(loop: S.For, parameters: frozenset[ir.Var]) -> list[S.Bind]:
    """The flags of the program's own tensors."""
    return [bind for bind in visit.collect(loop, S.Bind) if asked_of(bind.value) in parameters]


def _aligned(loop: S.For, flags: list[S.Bind]) -> S.Stmt:
    """A copy of the launch where every one of `flags` is set."""
    known = frozenset(flag.var for flag in flags)

    def move(attr: S.AttrStmt, mutator: Any) -> S.Stmt:
        if attr.attr_key == ALIGNED_MOVE and attr.body.condition in known:
            return attr.body.then_case
        return mutator.default_mutate(attr)

    def bind(node: S.Bind, mutator: Any) -> S.Stmt:
        return visit.sequence([]) if node.var in known else mutator.default_mutate(node)

    def both(node: E.And, mutator: Any) -> ir.Expr:
        return mutator.mutate(node.b) if node.a in known else mutator.default_mutate(node)

    launch = launch_ir.from_stmt(loop)
    body = visit.mutate(launch.body, (S.AttrStmt, move), (S.Bind, bind), (E.And, both))
    return renewed(replace(launch, body=body).to_stmt())
