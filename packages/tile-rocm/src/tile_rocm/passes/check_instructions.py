"""Refuse matrix instructions of the author's that the architecture lacks, and mark those that flush subnormals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.threads import is_instruction
from tile_core.passes.base import PassContext
from tile_rocm.instructions.matrix import MATRIX, instruction_of
from tile_rocm.instructions.shapes import MatrixInstruction


@dataclass(frozen=True)
class CheckInstructions:
    """`instructions`: those of the architecture."""

    name: ClassVar[str] = "check_instructions"
    instructions: tuple[MatrixInstruction, ...]

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            UnsupportedOnTargetError: an instruction that this architecture does not have.
        """

        def check(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            call = stmt.value
            if not is_instruction(stmt) or str(call.op.name) != MATRIX.op:
                return stmt
            wanted = instruction_of(call.attrs)
            found = next((one for one in self.instructions if replace(one, flushes=wanted.flushes) == wanted), None)
            if found is None:
                raise UnsupportedOnTargetError(
                    f"{context.target} has no {wanted.family} {wanted.name}",
                    remedy="compile for an architecture that has it, or use T.gemm, which takes what there is",
                    span=from_tvm(stmt.span),
                )
            attrs = {key: call.attrs[key] for key in call.attrs.keys()} | {"flushes": int(found.flushes)}
            return S.Evaluate(ir.Call(call.op, call.args, attrs=attrs, ret_ty=call.ty, span=call.span), stmt.span)

        return visit.mutate(func, (S.Evaluate, check))
