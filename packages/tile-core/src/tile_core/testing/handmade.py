"""Programs as the passes leave them, written by hand: what tests of single instructions are made of.

A backend compiles one with its `compile_lowered`, which begins where the passes end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.launch import Launch
from tile_core.ir.ops import tile_op


def int32(value: int) -> ir.Expr:
    """An int32 constant."""
    return E.IntImm("int32", value)


def load(buffer: ir.Var, *indices: Any) -> ir.Expr:
    """`buffer[indices]`."""
    return tirx.BufferLoad(buffer, [int32(at) if isinstance(at, int) else at for at in indices])


def store(buffer: ir.Var, value: ir.Expr, *indices: Any) -> S.Stmt:
    """`buffer[indices] = value`, at the caller's line."""
    return S.BufferStore(buffer, value, [int32(at) if isinstance(at, int) else at for at in indices], caller())


def do(*calls: Any) -> S.Stmt:
    """Statements, or calls for their effect at the caller's line, in order."""
    span = caller()
    return visit.sequence([call if isinstance(call, S.Stmt) else S.Evaluate(call, span) for call in calls])


def caller() -> ir.Span:
    """The line outside of this module that is being executed."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    line = frame.f_lineno
    return ir.Span(ir.SourceName(frame.f_code.co_filename), line, line, 1, 1)


def variable(name: str, dtype: str, value: ir.Expr) -> tuple[ir.Var, list[S.Stmt]]:
    """A variable of a thread with a first value, and the statements that make it."""
    buffer = tirx.decl_buffer((1,), dtype, name, scope="local.var")
    return buffer, [S.AllocBuffer(buffer), store(buffer, value, 0)]


def barrier() -> ir.Expr:
    """All threads of the block wait for each other."""
    return ir.Call(tile_op("tile.barrier"), [], ret_ty="void")


def when(condition: ir.Expr, *calls: Any) -> S.Stmt:
    """`do(calls)` where `condition` holds."""
    return S.IfThenElse(condition, do(*calls), None)


def loop(extent: Any, body: Callable[[ir.Var], Sequence[Any]], name: str = "i") -> S.Stmt:
    """A serial loop."""
    var = tirx.Var(name, "int32")
    last = int32(extent) if isinstance(extent, int) else extent
    return S.For(var, int32(0), last, S.ForKind.SERIAL, do(*body(var)))


def shared_buffer(name: str, shape: Sequence[int], dtype: str) -> ir.Var:
    """A tile in shared memory."""
    return tirx.decl_buffer(tuple(shape), dtype, name, scope="shared.dyn")


@dataclass
class Kernel:
    """A launch: blocks, `cluster` of them together, threads, shared tiles and the body of one thread.

    The tiles lie one after another at multiples of 1024 bytes.

    `body` gets the block's and the thread's index.
    """

    body: Callable[[ir.Var, ir.Var], Sequence[Any]]
    threads: int = 128
    blocks: Any = 1
    shared: Sequence[ir.Var] = field(default_factory=tuple)
    cluster: int = 1

    def launch(self) -> S.Stmt:
        """The nest."""
        offset, allocations = 0, []
        for buffer in self.shared:
            allocations.append(S.AllocBuffer(buffer, annotations={"tile.offset": offset}))
            size = prod(int(extent.value) for extent in buffer.shape) * int(buffer.dtype.bits) // 8
            offset += -(-size // 1024) * 1024
        block, thread = tirx.Var("bx", "int32"), tirx.Var("tx", "int32")
        others = [tirx.Var(name, "int32") for name in ("ty", "tz")]
        blocks = int32(self.blocks) if isinstance(self.blocks, int) else self.blocks
        return Launch(
            grid_vars=(block,),
            grid_extents=(blocks,),
            thread_vars=(thread, others[0], others[1]),
            threads=(self.threads, 1, 1),
            threads_given=True,
            prelude="",
            cluster_dims=(self.cluster, 1, 1),
            body=do(*allocations, *self.body(block, thread)),
            shared_bytes=offset,
        ).to_stmt()


def program(params: Sequence[ir.Var], *body: S.Stmt) -> tirx.PrimFunc:
    """The function `handmade` whose host code is `body`, launches included."""
    return tirx.PrimFunc(list(params), do(*body)).with_attr("global_symbol", "handmade")
