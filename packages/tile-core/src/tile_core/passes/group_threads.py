"""Give branches of whole warps that hold tile operations to those warps: `ops/collective.py` says which and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.errors.layouts import DivergentBarrierError
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ops.collective import grouped, is_collective
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class GroupThreads:
    """See the module.

    Raises:
        DivergentBarrierError: as `grouped`.
    """

    name: ClassVar[str] = "group_threads"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def group(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            return grouped(launch, DivergentBarrierError).to_stmt() if is_collective(launch.body) else loop

        return func.with_body(visit.mutate(func.body, (S.For, group)), func.span)
