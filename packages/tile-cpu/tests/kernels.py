"""Tile programs built from nodes, and a way to run them: these tests need neither the front end nor the jit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch, visit
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.targets import Target
from tile_cpu import compiler, runtime, target

Expr = ir.Expr


def i32(value: int) -> Expr:
    """An int32 constant."""
    return tirx.IntImm("int32", value)


def var(name: str, dtype: str = "int32") -> ir.Var:
    """A scalar variable."""
    return tirx.Var(name, dtype)


def tensor(name: str, shape: Sequence[Expr | int], dtype: str = "float32") -> ir.Var:
    """A tensor parameter."""
    size = max(1, ir.PrimType(dtype).dtype.bits // 8)
    return tirx.decl_buffer(tuple(shape), dtype, name, data_alignment=size)


def tile(name: str, shape: Sequence[Expr | int], dtype: str = "float32", scope: str = "shared.dyn") -> ir.Var:
    """A tile of a block."""
    return tirx.decl_buffer(tuple(shape), dtype, name, scope=scope)


def load(buffer: ir.Var, *index: Expr | int) -> Expr:
    """An element."""
    return tirx.BufferLoad(buffer, [i32(at) if isinstance(at, int) else at for at in index])


def store(buffer: ir.Var, value: Expr, *index: Expr | int) -> S.Stmt:
    """A store of a value of the buffer's dtype."""
    return S.BufferStore(buffer, value, [i32(at) if isinstance(at, int) else at for at in index])


def loop(extent: Expr | int, body: Callable[[ir.Var], S.Stmt], kind: str = "SERIAL", name: str = "i") -> S.For:
    """A loop of int32 over `extent`."""
    index = var(name)
    size = i32(extent) if isinstance(extent, int) else extent
    marks = {"tile.parallel": 1} if kind == "PARALLEL" else {}
    return S.For(index, i32(0), size, S.ForKind[kind], body(index), annotations=marks)


def parallel(extent: Expr | int, body: Callable[[ir.Var], S.Stmt], name: str = "i") -> S.For:
    """A `T.Parallel` loop."""
    return loop(extent, body, "PARALLEL", name)


def kernel(grid: Sequence[Expr | int], body: Callable[..., S.Stmt], threads: int = 1) -> S.Stmt:
    """A launch over `grid`, x first."""
    names = tuple(var(f"b{axis}") for axis in "xyz"[: len(grid)])
    extents = tuple(i32(extent) if isinstance(extent, int) else extent for extent in grid)
    thread_vars = (var("tx"), var("ty"), var("tz"))
    nest = launch.Launch(names, extents, thread_vars, (threads, 1, 1), True, "", (1, 1, 1), body(*names))
    return nest.to_stmt()


def function(params: Sequence[ir.Var], *body: S.Stmt, name: str = "main") -> tirx.PrimFunc:
    """A program."""
    return tirx.PrimFunc(list(params), visit.sequence(list(body))).with_attr("global_symbol", name)


def request(**options: Any) -> CompileRequest:
    """A request for this machine's CPU."""
    return CompileRequest(cpu(**options))


def cpu(**options: Any) -> Target:
    """This machine's CPU, or the one that `options` name."""
    return target.parse_target("cpu", options)


def build(func: tirx.PrimFunc) -> Artifact:
    """The artifact for this machine."""
    return compiler.compile_program(func, request())


def load_kernel(func: tirx.PrimFunc) -> Callable[..., None]:
    """The packed function of a program."""
    return runtime.load(build(func), request())


def elementwise(source: Sequence[str], result: str, expr: Callable[..., Expr], block: int = 64) -> tirx.PrimFunc:
    """`out[i] = expr(in0[i], in1[i], …)` over tensors of n elements of dtypes `source` and `result`."""
    n = var("n")
    inputs = [tensor(f"A{at}", (n,), dtype) for at, dtype in enumerate(source)]
    out = tensor("B", (n,), result)

    def body(bx: ir.Var) -> S.Stmt:
        return parallel(block, lambda i: store(out, expr(*(load(a, bx * block + i) for a in inputs)), bx * block + i))

    return function([*inputs, out], kernel([(n + (block - 1)) // block], body))
