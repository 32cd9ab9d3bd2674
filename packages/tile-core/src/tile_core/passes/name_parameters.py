"""Give a function back the parameters that its caller knows, where `pack_narrow` made bytes of them.

The host half checks arguments against the tensors of the program, and finds the sizes in their shapes; kernels take
their bytes, which are another name for the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.pack_narrow import STATE


@dataclass(frozen=True)
class NameParameters:
    """See the module."""

    name: ClassVar[str] = "name_parameters"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        given = context.state.get(STATE)
        if not given:
            return func
        params = [given.get(param, param) for param in func.params]
        views = [S.DeclBuffer(own, data=param.data) for own, param in given.items()]
        return tirx.PrimFunc(params, visit.sequence([*views, func.body]), func.ret_type, func.attrs, func.span)
