"""A kernel whose code is source text of its target: the launch's prelude defines it, the program only calls it.

The body of such a launch is one call. The kernel gets every parameter of the program, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir.ops import tile_op
from tile_core.ir.visit import collect
from tile_core.ops.threads import THREAD_PREFIX, called

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch

SOURCE_KERNEL = f"{THREAD_PREFIX}source_kernel"


def run_source(entry: str, span: ir.Span | None) -> S.Stmt:
    """The statement that stands for the code of the kernel `entry`."""
    call = ir.Call(tile_op(SOURCE_KERNEL), [], attrs={"entry": entry}, ret_ty="void", span=span)
    return S.Evaluate(call, span)


def source_kernel(launch: Launch) -> ir.Call | None:
    """The call that is the body of a launch, `None` where the body is a program."""
    found = [call for call in collect(launch.body, ir.Call) if called(call) == SOURCE_KERNEL]
    return found[0] if found else None
